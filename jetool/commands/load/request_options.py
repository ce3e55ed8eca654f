"""The options of ``jetool load``, and the load request that they define."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource

from engine.errors import StorageError
from engine.pipeline.load.input import endings
from jetool.commands.load import pipeline
from jetool.commands.load.dump_reader import KEYWORDS, is_allowed
from jetool.frame import params
from jetool.frame.options import RenamedOption

F = TypeVar("F", bound=Callable[..., Any])

_DUMP: Final = b"VERSION="


# Options that a load from a dump also has.
class SettingType(click.ParamType[tuple[str, str]]):
    """A line of a dump's header: ``NAME=VALUE``."""

    name = "NAME=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Parse a header line. Raises BadParameter."""
        if isinstance(value, tuple):
            return value
        keyword, equals, found = str(value).partition("=")
        keyword, found = keyword.strip().lower(), found.strip()
        if not equals or not keyword:
            self.fail(f"{value!r} is no NAME=VALUE", param, ctx)
        if not is_allowed(keyword, found):
            self.fail(f"{keyword} cannot be {found!r}", param, ctx)
        return keyword, found


_OF_DUMPS: Final = ("name", "create", "plain", "no_overwrite", "batch", "settings", "ignore_unknown")
_WORDS: Final = {"source_format": "input-format"}


def _after_env(ctx: click.Context, _: click.Parameter, sources: tuple[str, ...]) -> tuple[str, ...]:
    """The sources. A usage error if a source is the environment, or if ENV is a file."""
    env = ctx.params.get("env")
    if ctx.resilient_parsing or env is None or not sources or _is_environment(env):
        return sources
    # Detect swapped arguments here, because the error about the source would be confusing.
    named = [path for path in sources if _is_environment(path)] or [
        path for path in sources[-1:] if Path(env).is_file()
    ]
    if named:
        words = [named[0], *(path for path in (env, *sources) if path != named[0])]
        raise click.UsageError(f"the environment comes first: jetool load {' '.join(words)}", ctx)
    return sources


def _is_environment(path: str) -> bool:
    if (Path(path) / "log" / "log.ctrl").exists():
        return True
    return any(Path(path).glob("*.jdb")) or any(Path(path).glob("data[0-9][0-9][0-9]/*.jdb"))


_OPTIONS: Final = (
    click.argument(
        "sources",
        nargs=-1,
        type=click.Path(),
        callback=_after_env,
        help="Files or datasets; without any, or with -, standard input: a dump, or what --input-format says.",
    ),
    click.option(
        "-s",
        "--db",
        "name",
        type=params.DATABASE,
        metavar="NAME",
        help="The database.  [default: the one in a dump's header]",
    ),
    click.option(
        "--create",
        is_flag=True,
        help="Create the database, with the settings of a dump's header, if it does not exist.",
    ),
    click.option(
        "--engine",
        type=click.Choice(("auto", "spark", "local")),
        default="auto",
        show_default=True,
        help="Who reads files: Spark, or this machine without Spark; auto means local for local files, "
        "but Spark for 1 GiB and more where spark-defaults.conf names a cluster.",
    ),
    click.option(
        "--input-format",
        "source_format",
        cls=RenamedOption,
        old=("--from",),
        type=click.Choice(endings.FORMATS),
        help="Format of the sources.  [default: by their names]",
    ),
    click.option("--key", metavar="COLUMN,...", help="Columns of the key; several are concatenated."),
    click.option("--value", metavar="COLUMN,...", help="Columns of the value.  [default: all others]"),
    click.option(
        "--value-format",
        type=click.Choice(("raw", "json", "msgpack", "avro")),
        help="Format of the value; avro is not available for JSON lines.  [default: raw for one column, else json]",
    ),
    click.option("--delimiter", metavar="CHAR", help="Separator of CSV columns.  [default: a comma; a tab for .tsv]"),
    click.option("--no-header", is_flag=True, help="The CSV has no header line; columns are named c1, c2, ..."),
    click.option(
        "--on-duplicate",
        type=click.Choice(("last", "first", "error")),
        default="last",
        help="The record to keep when several records of the source have the same key.",
    ),
    click.option(
        "--order-by",
        metavar="COLUMN",
        help="Column with a number or time that decides which record is last.  [default: the source's order]",
    ),
    click.option(
        "--rejects",
        metavar="DIR",
        type=click.Path(),
        help="Directory for bad records.  [default: ENV.jetool-rejects/TIME]",
    ),
    click.option("--partitions", type=click.IntRange(1, 10_000), metavar="N", help="Tasks that write log files."),
    click.option(
        "-T",
        "--text",
        "plain",
        is_flag=True,
        help="The input has no header: keys and data on alternate lines, as text.",
    ),
    click.option(
        "-c",
        "--config",
        "settings",
        type=SettingType(),
        multiple=True,
        help="A line for the header of a dump, such as dupsort=1; with -T the whole header. What the dump's own header "
        "says counts.",
    ),
    click.option("-I", "--ignore-unknown", is_flag=True, help="Pass over header lines of a dump that are not known."),
    click.option(
        "--no-overwrite", is_flag=True, help="Reject records whose keys are already in the database (exit 1)."
    ),
    click.option(
        "--batch",
        type=click.IntRange(1),
        default=10_000,
        metavar="N",
        help="Records per transaction, for a dump or a database that is not empty.",
    ),
    click.option("--resume", is_flag=True, help="Resume an interrupted load into a database that is not empty."),
)


def all_of_them(function: F) -> F:
    """Decorate a command with the options, in this order."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def is_dump(sources: tuple[str, ...], options: dict[str, Any]) -> bool:
    """Whether the source is a JE dump.

    Raises:
        UsageError: options without a meaning for a dump, or a dump together with other sources.
    """
    dumps = [path for path in sources if path == "-" or _looks_like_dump(path)]
    if options["source_format"] is not None or (sources and not dumps and not options["plain"]):
        if options["settings"] or options["ignore_unknown"]:
            raise click.UsageError("-c and -I go with a JE dump, or with -T", click.get_current_context())
        return False
    unknown = [name for name, _ in options["settings"] if name not in KEYWORDS]
    if unknown and not options["ignore_unknown"]:
        raise click.UsageError(
            f"-c {unknown[0]}: not a header line of a dump; known are {', '.join(KEYWORDS)}",
            click.get_current_context(),
        )
    if len(sources) > 1:
        raise click.UsageError("a JE dump is loaded by itself; name one at a time", click.get_current_context())
    given = click.get_current_context().get_parameter_source
    # Only options that the user typed are refused, not defaults.
    explicit = [n for n in options if n not in _OF_DUMPS and given(n) is ParameterSource.COMMANDLINE]
    if explicit:
        words = ", ".join(f"--{_WORDS.get(name, name.replace('_', '-'))}" for name in explicit)
        raise click.UsageError(f"{words}: without effect on a JE dump; leave it out", click.get_current_context())
    return True


def _looks_like_dump(path: str) -> bool:
    """Whether the file begins like a dump, or has a name without a known ending."""
    if not endings.is_local(path):
        return False
    try:
        with open(endings.local(path), "rb") as file:  # noqa: PTH123 - the user's file, not one of the engine
            return file.read(len(_DUMP)).upper() == _DUMP or endings.ending_of(path) is None
    except OSError:
        # The file is unreadable or missing. Its name decides whether the error comes from loading a dump or another
        # source.
        return path.endswith(".dump")


def request(env: str, sources: tuple[str, ...], options: dict[str, Any]) -> pipeline.LoadRequest:
    """The load request, if the sources are files or datasets.

    Raises:
        UsageError: no database was named.
    """
    if options["name"] is None:
        raise click.UsageError("name the database with --db", click.get_current_context())
    # Use the parameters of the command line, in which an option that was not given is None instead of a default.
    formats = click.get_current_context().params
    return pipeline.LoadRequest(
        env=env,
        sources=sources or ("-",),
        db=options["name"],
        create=options["create"],
        engine=options["engine"],
        source_format=options["source_format"],
        delimiter=_delimiter(options["delimiter"]),
        header=not options["no_header"],
        key=_names(options["key"]) or (),
        value=_names(options["value"]),
        key_format=formats["key_format"],
        data_format=formats["data_format"],
        value_format=options["value_format"],
        order_by=options["order_by"],
        on_duplicate=options["on_duplicate"],
        overwrite=not options["no_overwrite"],
        batch=options["batch"],
        partitions=options["partitions"],
        rejects=options["rejects"],
        resume=options["resume"],
    )


@contextmanager
def with_standard_input(request: pipeline.LoadRequest) -> Iterator[pipeline.LoadRequest]:
    """The request with the bytes of standard input in a file, if ``-`` is a source: a source is read several times."""
    if "-" not in request.sources:
        yield request
        return
    with tempfile.TemporaryDirectory(prefix="jetool-load-") as directory:
        path = Path(directory) / f"standard-input.{request.source_format}"
        try:
            with path.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        except OSError as error:
            raise StorageError("cannot keep standard input", file=str(path), found=error.strerror) from error
        yield request._replace(standard_input=str(path))


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _delimiter(text: str | None) -> str | None:
    if text is None:
        return None
    found = {"\\t": "\t"}.get(text, text)
    # Arrow's parser accepts only a one-byte delimiter.
    if len(found.encode()) != 1 or found in '"\r\n':
        raise click.UsageError("--delimiter is one ASCII character, or \\t", click.get_current_context())
    return found
