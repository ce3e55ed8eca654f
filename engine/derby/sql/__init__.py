"""Tables of a Derby database with an SQL catalogue, read without Derby.

* ``heap_rows``: the rows of a heap: put together from their pieces, and the pages that cannot be read
* ``tables``: the tables that the catalogue names, their columns and types, and their rows as recovery leaves them
"""
