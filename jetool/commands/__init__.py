"""One file per command, each with a ``command`` object that ``jetool.cli`` loads when it is called."""
