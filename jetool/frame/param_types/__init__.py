"""The larger parameter types of ``jetool.frame.params``.

* ``places``: places in a log: LSNs and instants, VLSNs, points, files
* ``shell_completion``: completion of database names
* ``times``: times and time zones
"""
