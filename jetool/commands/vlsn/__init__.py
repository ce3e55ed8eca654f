"""The commands of ``jetool vlsn``: the stream in the log (``from_log``), the VLSN index (``from_index``), its repair.

``jetool.commands.vlsn.command`` loads them all.
"""
