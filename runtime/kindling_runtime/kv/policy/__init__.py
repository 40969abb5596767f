"""What the tier decides: pure, of values and of moments that it is told."""
