"""``jetool crash``: places by name, copies, the matrix, and the rows of all three."""
