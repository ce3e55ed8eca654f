"""The journals of a frontend's environment: extents, checks for completeness, comparison of nodes.

``engine.contents`` decodes single records; this package checks what must hold for all journals together. Environments
are read after a recovery in memory and are never changed.

Modules:

* ``check``: problems that would stop a frontend's replay, or surprise its operator
* ``compare``: comparing several nodes: where their journals diverge, and which node to start from
* ``extents``: the journal databases, from the keys of their bottom nodes alone
* ``id_range``: a range of journal ids
* ``images``: the image files beside the environment: headers and checksums
* ``metadata``: the frontend's files beside the environment
* ``reader``: reading journals by id, with their LSN and commit time
* ``summary``: a summary of the journals, for reports over many nodes
* ``unseen``: journals that the log holds after damage, where recovery does not read
* ``usage``: the space used: journals and bytes by operation and by hour
"""
