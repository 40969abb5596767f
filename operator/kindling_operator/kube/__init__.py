"""The way to the API server: one client, its errors, and the fence in front of every write."""
