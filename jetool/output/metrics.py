"""Metrics in the text format of Prometheus, which node_exporter and Prometheus itself read.

A metric is two lines of comment and a line for each series: ``name{label="value"} number``. Every series has the host
as a label.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from jetool.output.shape import printable

GAUGE: Final = "gauge"
COUNTER: Final = "counter"
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def metric_lines(name: str, about: str, series: Iterable[tuple[dict[str, str], float]], kind: str = GAUGE) -> list[str]:
    """The lines of one metric, each series with the host."""
    lines = [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
    for labels, value in series:
        shown = ",".join(f'{label}="{_label(text)}"' for label, text in {"host": host(), **labels}.items())
        lines.append(f"{name}{{{shown}}} {value if isinstance(value, float) else int(value)}")
    return lines


def host() -> str:
    """The name of this machine."""
    return os.uname().nodename


def _label(text: str) -> str:
    return printable(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
