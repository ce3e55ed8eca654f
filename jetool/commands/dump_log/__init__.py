"""``jetool dump-log``: selection of entries, rendering in one or several processes, and the formats text,
rows and XML.
"""
