"""Entry bodies, one module per family. Each record is a named tuple whose fields stand in on-disk order."""
