"""``jetool dump``: a whole database, or all of them.

Modules:

* ``command``: the command
* ``directory``: the files of ``--all``
"""
