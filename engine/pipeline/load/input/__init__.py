"""Reading a source: its files, their records, and the keys and values made from these by a recipe.

``sources`` finds files, and ``endings`` recognises formats by their names; ``splits``, ``lines`` and ``columnar`` give
each task its part; ``lines``, ``columns`` and ``values`` decode it; ``sorted_runs`` runs these steps as a ``recipe``
describes. ``text_records`` reads lines by the standard library alone, for installations without pyarrow.
"""
