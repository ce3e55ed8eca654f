"""The verbs on Derby databases, one module each; the command of the same name calls them.

A command asks ``jetool.app.kinds`` what the directory is and loads the module only when it is a Derby database, so that
runs on JE environments do not pay for it. Shapes are in ``jetool.output.derby_*``.
"""
