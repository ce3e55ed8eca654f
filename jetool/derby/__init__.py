"""Derby databases and page stores on the command line.

``verbs`` is what ``jetool.app.verbs`` calls for a Derby database; each verb loads its own module here, so that runs on
JE environments pay for none of them. What they print stands in the modules ``*_rows``.
"""
