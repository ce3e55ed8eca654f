"""The command line of jetool: options, one engine call, one renderer. Everything else lives in ``engine``."""
