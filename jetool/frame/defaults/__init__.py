"""What a command uses when an argument is left out.

* ``environment_below``: the only environment in a directory, and the current directory
* ``only_database``: the only database of an environment, in place of ``--db``
"""
