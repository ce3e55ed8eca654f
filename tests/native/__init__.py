"""The functions in C and their Python twins."""
