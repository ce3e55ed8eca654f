"""What is loaded: the files of a source, their records, and the keys and values that a recipe makes of these.

``sources`` finds files, ``endings`` knows their names; ``splits``, ``lines`` and ``columnar`` give each task its part;
``lines``, ``columns`` and ``values`` read it; ``sorted_runs`` does all of that by a ``recipe``. ``text_records`` reads
lines by the standard library alone, where pyarrow is not installed.
"""
