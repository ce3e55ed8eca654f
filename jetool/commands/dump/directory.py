"""``jetool dump --all DIR``: every database of an environment, one file each.

The directory appears when it is complete. The name of a database comes from the disk: in a file name, bytes other than
ASCII letters and digits, ``.``, ``_`` and ``-`` are written as ``%xx``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Final, NamedTuple

from engine.errors import UsageError
from engine.fields import Bool, Int, Like, SizeBytes, Text, record
from engine.pipeline.tables import new_directory
from jetool.frame.options import Run
from jetool.frame.record_output import Completeness
from jetool.output.render import Renderer
from jetool.output.sink import FileOutput

_MOST_NAME: Final = 150


@record("dumped")
class DumpedFile(NamedTuple):
    """One database."""

    db: Annotated[Text, "its name"]
    file: Annotated[Text, "its file in the directory"]
    records: Annotated[Int, "records in it"]
    bytes: Annotated[SizeBytes, "size of the file"]


@record("summary")
class DumpedFiles(NamedTuple):
    """The end of a dump of all databases."""

    directory: Annotated[Text, "the directory with the files"]
    databases: Annotated[Int, "databases dumped"]
    records: Annotated[Int, "records of all databases"]
    complete: Annotated[Bool, Like(Completeness)]
    reason: Annotated[Text | None, Like(Completeness)]


def refuse_beside_all(run: Run, name: str | None) -> None:
    """Refuse options that have no meaning beside ``--all``. UsageError."""
    if name is not None:
        raise UsageError("--all and --db exclude each other", hint="leave one of them out")
    if run.out.selected is not None:
        raise UsageError("--fields does not go with --all", hint="leave one of them out")


def dump_directory(
    run: Run, directory: str, names: list[str], dump_one: Callable[[Run, str], int], unseen: Callable[[], str | None]
) -> None:
    """Dump databases into a new directory, and list the files.

    Arguments:
        directory: a directory that does not exist or is empty.
        names: the databases.
        dump_one: prints one database to the output of the given run; returns the number of records.
        unseen: called after the last database: what was not read, so that records may be missing.

    Raises:
        RefusedError: the directory is not empty. StorageError: it cannot be written.
    """
    done: list[DumpedFile] = []
    with new_directory(directory) as staging:
        for name, file in zip(names, _files(names, run.out.format), strict=True):
            sink = FileOutput(str(staging / file))
            sink.open()
            try:
                records = dump_one(replace(run, out=Renderer(run.out.format, run.out.style, None, sink)), name)
                sink.commit()
            except BaseException:
                sink.abandon()
                raise
            done.append(DumpedFile(db=name, file=file, records=records, bytes=(staging / file).stat().st_size))
    with run.out.stream(DumpedFile) as stream:
        for one in done:
            stream.row(one)
        records = sum(one.records for one in done)
        reason = unseen()
        stream.end(
            DumpedFiles(
                directory=directory,
                databases=len(done),
                records=records,
                complete=reason is None,
                reason=reason,
            )
        )


def _files(names: list[str], form: str) -> Iterator[str]:
    """A file name for each database: plain, not hidden, and different also where case does not count."""
    seen: dict[str, int] = {}
    ending = "dump" if form == "je" else form
    for name in names:
        plain = "".join(
            chr(byte) if byte < 0x80 and (chr(byte).isalnum() or byte in b"._-") else f"%{byte:02x}"
            for byte in name.encode("utf-8", "surrogateescape")
        )[:_MOST_NAME]
        plain = f"db-{plain}" if not plain or plain.startswith(".") else plain
        seen[plain.lower()] = count = seen.get(plain.lower(), 0) + 1
        yield f"{plain}.{ending}" if count == 1 else f"{plain}~{count}.{ending}"
