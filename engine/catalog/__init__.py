"""Databases by id and by name: the mapping tree (MapLN) and the naming tree (NameLN), R-TREE-3 to R-TREE-5."""
