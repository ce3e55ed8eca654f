"""The larger parameter types of ``jetool.frame.params``.

* ``places``: places in a log: LSNs and instants, VLSNs, points, files
* ``shell_completion``: the databases that the shell is offered
* ``times``: times and time zones
"""
