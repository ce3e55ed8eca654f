"""The storage engine under jetool: Berkeley DB JE's log format, read and checked without a JVM.

Packages, bottom up (a package imports only from those above it in this list):

* ``engine.errors``, ``engine.events``: the error tree and the progress listener protocol.
* ``engine.format``: pure codecs, bytes to frozen records and back; no I/O.
* ``engine.storage``: the one seam through which files are read and written.
* ``engine.log``: log files of an environment, readers, end of log, resynchronisation past damage.
* ``engine.verify``: checks that collect findings.
* ``engine.aries``: beside the others, the page store on Apache Derby's files; imports storage, errors and events only.

Nothing here prints, and nothing here knows the command line.
"""
