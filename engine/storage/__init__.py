"""The one seam for files: every read, write, sync, rename and removal of the engine goes through it.

``base`` defines the protocol, ``disk`` and ``memory`` implement it. Faults and crash images are further implementations
of the same protocol; the engine has no branches for them. Paths are relative to the root that an implementation was
made for and use ``/``.
"""
