"""``jetool load``: files and datasets through the pipeline, JE dumps through the engine."""
