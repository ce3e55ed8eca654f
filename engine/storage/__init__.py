"""The one seam for files: every read, write, sync, rename and removal of the engine goes through it.

``base`` defines the protocol, ``disk`` and ``memory`` implement it. Faults and crash images are further implementations
of the same protocol; the engine has no branches for them. Paths are relative to the root that an implementation was
made for and use ``/``.

Also here:

* ``sidecar``: a directory for what belongs to an environment
* ``copy_on_write``: changes to files that are never written, kept as files of another directory
* ``crash``: files whose owner crashes: what was synced survives, and a chosen part of what was not
* ``truncated_view``: a storage seen as if files were shorter or gone: an environment as it was earlier
* ``repair_audit``: does an interrupted repair explain what is there? If not, somebody has written since
* ``journal``: the journal of a repair: what was there before, what was written, and how far the repair has come
* ``overlay``: storages that stand over another one: everything goes through, or changes stay in memory
* ``posix_locks``: POSIX range locks on single bytes of files, the kind that a JVM takes
* ``remote``: files at a URL, through fsspec, for directories of backups
* ``room``: whether a disk has room for what a command is about to write
* ``saved_bytes``: saved bytes: what a repair overwrites is kept first, so that the repair can be undone
* ``scratch``: bytes that do not fit into memory, in a nameless file of the system's temporary directory
* ``sorted_pairs``: pairs of bytes in order, more than memory holds
* ``undo``: taking a repair back: every byte as it was before, from the journal
* ``unfinished``: output that is made under another name, and what a killed run leaves of it
"""
