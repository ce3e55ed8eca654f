"""Bytes as text and back for the command line; ``engine.inspect.key_formats`` says how, since exports need it, too."""

from __future__ import annotations

from engine.inspect.key_formats import FORMATS, parse, show

__all__ = ["FORMATS", "parse", "show"]
