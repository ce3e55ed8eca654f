"""The state of directories, for an operator who has to decide: what each is, whether it can start, and what is lost.

Nothing here judges by itself. The log is checked by ``engine.verify``, opening is tried in memory by
``engine.rescue.repair`` (or ``engine.derby.recovery``), and journals, groups and missing files have modules of their
own. These modules ask them, and put the answers together. Nothing is changed.

* ``application``: the application that an environment belongs to, and its answers
* ``codes``: the meaning of every finding code
* ``copies``: copies of one environment side by side
* ``derby_database``: a Derby database
* ``directory``: environments and databases in a directory; a diagnosis of each
* ``frontend``: whether a frontend would start: its files, its group, its journals
* ``je_environment``: a JE environment
* ``losses``: what would be lost by starting, by name
* ``nodes``: several directories: nodes of one group side by side, and the one to start from
* ``readiness``: what keeps an application from starting besides the log: locks, permissions, releases, disk space
* ``record``: the diagnosis, as records
* ``rules``: reasons with permanent codes
* ``steps``: the next commands, with what each risks

Example::

    from engine.diagnosis.directory import diagnose, find_environments

    for path in find_environments("/data/fe"):
        found = diagnose(path)
        print(path, found.verdict, [reason.text for reason in found.reasons])
"""
