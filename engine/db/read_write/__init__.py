"""What an environment needs only when it is open for writing; read-only environments do not load it."""
