"""``jetool crash``: crash points, copies, the matrix, and output records."""
