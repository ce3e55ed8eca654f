"""What only tools look at: surveys of a log, selections, counts, streams side by side, maps, fates, crash points.

Nothing that an application of the engine calls is here, and nothing here changes an environment: what a crash would
leave is made on storages that the caller hands in.
"""
