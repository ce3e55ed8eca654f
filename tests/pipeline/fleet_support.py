"""What the tests of data sources and fleets share: the fixtures, and small environments of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def environments(corpus: Path, release: str = "*") -> list[Path]:
    """The directories of all fixtures of a release, nodes of groups included."""
    root = corpus / "je"
    found = [*root.glob(f"je-{release}/*/env"), *root.glob(f"je-{release}/*/node?/env")]
    return sorted(found)


def manifest(env: Path) -> dict[str, Any]:
    """What is known of a fixture."""
    found: dict[str, Any] = json.loads((env.parent / "manifest.json").read_text())
    return found


def expected(env: Path, name: str) -> Any:
    """A JSON file of a fixture's expectations."""
    return json.loads((env.parent / "expected" / name).read_text())
