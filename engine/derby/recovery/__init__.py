"""Recovery of a page store: where it starts, redo, undo, compensation.

Modules:

* ``compensate``: compensation: which CLR undoes a record, and on which page and row it does so
* ``manager``: recovery of a database after a crash: redo, undo, checkpoint
* ``redo``: the redo pass: repeat history from the redo low water mark
* ``start``: where recovery starts
* ``undo``: the undo pass: losers are rolled back, one after the other
"""
