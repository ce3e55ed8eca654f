"""What an environment needs only when it is open for writing; read-only environments do not load it.

* ``parts``: the parts that only such an environment has: log writer, cleaner, expiration, extinction tasks
* ``startup``: from the files of a directory to connected parts with a log writer
"""
