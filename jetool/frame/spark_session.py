"""Spark sessions for commands, configured by the shared options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jetool.frame.options import Run

if TYPE_CHECKING:
    from engine.pipeline.session import Session


@contextmanager
def session(run: Run, *, quick: bool = False) -> Iterator[Session]:
    """Start Spark with the settings of ``--master``, ``--conf`` and ``--jobs``; stop it at the end. The command needs
    ``spark``.

    Arguments:
        run: the options.
        quick: the job is small, so prefer a fast start to fast execution.

    Raises:
        JetoolError: as ``engine.pipeline.session.open_session``.
    """
    from engine.pipeline.session import open_session
    from engine.pipeline.settings import SparkSettings, parse_conf

    settings = SparkSettings(run.master, parse_conf(run.conf), run.jobs, quick)
    with open_session(settings, run.listener) as found:
        yield found
