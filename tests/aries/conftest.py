"""Makes the helper modules of this directory importable whatever import mode pytest runs in; fixtures of all tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from tests.aries.derby_java import classes  # noqa: F401 - a fixture
