"""jetool's own page store in Derby's real format: tables of keys and values, without an SQL catalogue.

Modules, bottom up: ``write_path`` (log, then do), ``locks``, ``commits`` (group commit), ``space`` (pages),
``heap``, ``index`` and ``split`` (the B-tree), ``tables`` (the catalogue), ``transaction``, ``reclaim`` (work after a
commit), ``page_store`` (opening, checkpoints, closing). Start with ``page_store``.

Also here:

* ``layout``: the files of a new store, and the property that distinguishes a store from an SQL database
"""
