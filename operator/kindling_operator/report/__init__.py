"""What people and machines read back: status, events, metrics. One writer, and only on change."""
