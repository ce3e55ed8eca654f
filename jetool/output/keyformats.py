"""Bytes as text and back for the command line; ``engine.format.keyformats`` says how, since exports need it, too."""

from __future__ import annotations

from engine.format.keyformats import FORMATS, parse, show

__all__ = ["FORMATS", "parse", "show"]
