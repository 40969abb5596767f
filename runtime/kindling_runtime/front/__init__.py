"""What stands before the engine's routes, inside the engine's own HTTP server (docs/adr/0010)."""
