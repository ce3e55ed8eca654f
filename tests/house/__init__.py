"""The rules of the house: what it promises of its own code, measured or read from the sources."""
