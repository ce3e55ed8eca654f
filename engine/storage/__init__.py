"""Access to files: every read, write, sync, rename and removal of the engine goes through this package.

``base`` defines the protocol; ``disk`` and ``memory`` implement it. Injected faults and crash images are further
implementations of the same protocol; the engine has no branches for them. Paths are relative to the root of an
implementation and use ``/``.

Also here:

* ``sidecar``: a directory for files that belong to an environment
* ``bytes_ahead``: bytes of files that are needed soon, read by threads
* ``copy_on_write``: changes to files that must not be written, stored as files of another directory
* ``crash``: files after a simulated crash: synced data survives, and a chosen part of the unsynced changes
* ``truncated_view``: a view of a storage in which files are shorter or missing, as the environment was earlier
* ``repair_audit``: does an interrupted repair explain the current files? If not, another program has written since
* ``journal``: the journal of a repair: the old bytes, the written bytes, and the progress of the repair
* ``overlay``: storages on top of another storage: all operations are passed on, or changes stay in memory
* ``posix_locks``: POSIX range locks on single bytes of files, as a JVM takes them
* ``remote``: files at a URL, through fsspec, for directories of backups
* ``room``: checks that a disk has room for the output of a command
* ``saved_bytes``: saves the bytes that a repair is about to overwrite, so that the repair can be undone
* ``scratch``: data that does not fit into memory, in a nameless file of the system's temporary directory
* ``sorted_pairs``: sorting more pairs of bytes than memory holds
* ``throttle``: reading no faster than a number of bytes per second
* ``undo``: undoing a repair: restores every byte from the journal
* ``unfinished``: output that is built under a temporary name, and the remains of killed runs
"""
