"""An entity store with every kind of field and key, as JE 18.3.20 wrote it, and what JE reads of it.

``everything.json`` holds it: the catalog (deflated, in base 85), and the records of each database. It was made by::

    javac -cp JE -d OUT tests/contents/Everything.java
    java -cp JE:OUT Everything ENV > SAID
    python -m tests.support.environments.entity_store ENV SAID
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from pathlib import Path
from typing import Any, Final

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment

FILE: Final = Path(__file__).parent / "everything.json"
STORE: Final = "persist#all#"
FORMATS: Final = f"{STORE}com.sleepycat.persist.formats"


def write_down(env_path: str, said: str) -> None:
    """Write the file for an environment and what JE has said of it."""
    lines = [json.loads(line) for line in Path(said).read_text().splitlines()]
    with Environment(env_path, EnvironmentConfig(read_only=True)) as env:
        databases: dict[str, Any] = {}
        catalog = b""
        for name in env.database_names():
            with env.open_database(name) as db:
                records = list(db.items())
            if name == FORMATS:
                catalog = records[0][1]
                continue
            meant = [line["je"] for line in lines if name == STORE + line["entity"]] or [None] * len(records)
            databases[name] = [
                {"key": key.hex(), "data": data.hex(), "je": je} for (key, data), je in zip(records, meant, strict=True)
            ]
    text = base64.b85encode(zlib.compress(catalog, 9)).decode()
    FILE.write_text(json.dumps({"catalog": text, "databases": databases}, indent=1) + "\n")


def read_back() -> tuple[bytes, dict[str, list[dict[str, Any]]]]:
    """The catalog, and the records by database: key, data, and what JE reads of an entity."""
    found = json.loads(FILE.read_text())
    return zlib.decompress(base64.b85decode(found["catalog"])), found["databases"]


if __name__ == "__main__":
    write_down(*sys.argv[1:])
