"""Streaming queries of Spark on a busy machine."""

from __future__ import annotations

from collections.abc import Callable


def begun_again(stream: Callable[[], object]) -> None:
    """Run a streaming query; Spark gives its worker ten seconds to begin, too few on a busy machine: then once more."""
    from pyspark.errors import StreamingQueryException  # only where Spark is installed

    for left in reversed(range(5)):
        try:
            stream()
        except StreamingQueryException as error:
            if not left or "failed to connect back" not in str(error):
                raise
        else:
            return
