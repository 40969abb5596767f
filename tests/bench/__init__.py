"""The figures of Kindling, measured side by side; never part of pass or fail."""
