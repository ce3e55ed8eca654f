"""The replication changelog that OpenDJ keeps in files (``changelogDb``), from OpenDJ 3 on (opendj-changelog.md).

``engine.contents`` decodes blocks and records; this package reads directories. Files are never changed.

Modules:

* ``check``: what is wrong with a changelog, and what each replica has in it
* ``directory``: domains, replicas and log files of a changelog, by their names
* ``updates``: the updates of the replicas, merged by CSN
"""
