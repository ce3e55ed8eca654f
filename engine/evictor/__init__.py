"""Keeping the cache within its budget (R-EVT-1 to R-EVT-8).

Modules:

* ``eviction_policy``: which nodes leave the cache first
* ``evictor``: keeping the cache within its budget
* ``je_cache_size``: the memory that JE's cache needs for a database
* ``je_off_heap``: the same with a cache outside the Java heap
"""
