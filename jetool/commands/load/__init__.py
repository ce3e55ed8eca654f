"""``jetool load``: loads files and datasets with the pipeline, and JE dumps with the engine."""
