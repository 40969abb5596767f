"""When the stages run, for which model, and by which of the operator's processes."""
