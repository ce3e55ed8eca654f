"""The rules of the house: how modules hang together, and how records are built."""
