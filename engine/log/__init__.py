"""Log files of an environment: listing, readers in both directions, end of log, resynchronisation past damage."""
