"""Renderers. Nothing else in the project prints."""
