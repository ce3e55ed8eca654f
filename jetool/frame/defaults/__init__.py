"""What a command uses when an argument is left out.

* ``only_database``: the only database of an environment, in place of ``--db``
"""
