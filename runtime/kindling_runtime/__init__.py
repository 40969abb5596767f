"""What runs inside a serving pod: the supervisor of one vLLM engine."""
