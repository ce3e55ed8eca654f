"""Recovery of a page store: where it starts, redo, undo, compensation."""
