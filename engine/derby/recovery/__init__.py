"""Recovery of a page store: where it starts, redo, undo, compensation.

Modules:

* ``compensate``: compensation: the CLR that undoes a record, and the page and row where it does so
* ``manager``: recovery of a database after a crash: redo, undo, checkpoint
* ``moved_rows``: where splits have moved the rows of an index
* ``redo``: the redo pass: repeat history from the redo low water mark
* ``start``: where recovery starts
* ``undo``: the undo pass: rolls losers back, one at a time
"""
