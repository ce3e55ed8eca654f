"""What an application of JE expects of an engine: sequences, cursors, secondaries, comparators, statistics."""
