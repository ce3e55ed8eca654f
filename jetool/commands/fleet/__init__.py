"""The commands of ``jetool fleet``, and their shared selection of environments."""
