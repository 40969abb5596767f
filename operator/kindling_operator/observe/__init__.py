"""From what the watches deliver to one frozen snapshot, and the audit of those watches."""
