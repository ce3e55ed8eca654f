"""Options that commands share, declared once.

A command declares **features**, and its help lists their options. Every command has ``--format``, ``--output``,
``--color``, ``-q`` and ``-v``.

A command without the feature refuses an option that would change its action or output, instead of ignoring it. Options
that only affect the format of times, keys or progress (``_HARMLESS``) are accepted by all commands, even if not listed,
so that an operator can keep them in an alias. A command that prints no time ignores ``--tz``.

=============  ==========================================  ====================================================
feature        options                                     for commands that
=============  ==========================================  ====================================================
``fields``     ``--fields``                                print records with fields
``progress``   ``--progress``                              report steps to ``run.listener``
``times``      ``--tz``                                    print or take times
``keys``       ``--key-format --data-format``              print or take keys and data
``jobs``       ``--jobs``                                  use several processes
``lock``       ``--lock-timeout``                          take the environment's lock
``write``      ``-n/--dry-run --yes --backup-dir``         change an environment
``plan``       ``-n/--dry-run``                            write something else
``consent``    ``-n/--dry-run --yes``                      change a group that runs
``tls``        ``--tls-ca --tls-cert --tls-key             call nodes of JE
               --tls-check-host``
=============  ==========================================  ====================================================

All options except those of ``write``, ``plan``, ``consent``, ``spark`` and ``tls`` may also precede the command's name.
They are passed to the command as written, so they are parsed in one place, and one rule decides which of them it
accepts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from jetool.frame import params

if TYPE_CHECKING:
    from jetool.output.base import Output
    from jetool.output.messages import Messages, Reporter
    from jetool.output.sink import Sink

FORMATS: Final = ("text", "json", "ndjson", "csv")
KEY_FORMATS: Final = ("hex", "text", "utf8", "base64", "tuple-long", "tuple-int", "tuple-string")


class FormatType(click.ParamType[str]):
    """A format that the command has.

    Arguments:
        formats: names of the formats, the default first.
    """

    def __init__(self, formats: Sequence[str]) -> None:
        self.name = "|".join(formats)
        self.formats = tuple(formats)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002 - Click's signature
        """The choices for the help."""
        return f"[{'|'.join(self.formats)}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name itself. Raises BadParameter."""
        if value not in self.formats:
            where = f" of {ctx.command_path}" if ctx else ""
            self.fail(f"{value!r} is not a format{where}; it has {', '.join(self.formats)}", param, ctx)
        return str(value)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - Click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[Any]:
        """The formats that begin with the typed text."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in self.formats if name.startswith(incomplete)]


class RenamedOption(click.Option):
    """An option with a new name. Its old spellings still work; help and completion show only the new one.

    Arguments:
        old: the old spellings.
    """

    def __init__(self, *args: Any, old: Sequence[str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.old = tuple(old)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let the parser accept the old spellings too."""
        shown = self.opts
        self.opts = [*shown, *self.old]
        try:
            super().add_to_parser(parser, ctx)
        finally:
            self.opts = shown


def out_option(text: str, metavar: str = "DIR", *, required: bool = True) -> Callable[[Any], Any]:
    """The option ``--out`` (parameter ``to``): where a command writes its files."""
    return click.option(
        "--out",
        "to",
        cls=RenamedOption,
        old=("--to",),
        required=required,
        type=click.Path(),
        metavar=metavar,
        help=text,
    )


class Unread(click.ParamType[str]):
    """The type of a leading option: values stay as written; help and completion come from the real type.

    Arguments:
        real: the type with which the command will parse the value.
    """

    def __init__(self, real: click.ParamType[Any]) -> None:
        self.name = real.name
        self.get_metavar = real.get_metavar  # type: ignore[method-assign]
        self.shell_complete = real.shell_complete  # type: ignore[method-assign]


def _choice(*names: str) -> click.Choice[str]:
    return click.Choice(names)


class NamedOrders(NamedTuple):
    """A database, and the names of its key order and its duplicate order; the second may be None."""

    database: str
    keys: str
    data: str | None


class OrderType(click.ParamType[NamedOrders]):
    """``DB=NAME`` or ``DB=NAME,NAME``. The name of a database may contain ``=``, so the last ``=`` is the separator."""

    name = "DB=NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> NamedOrders:
        """Parse the database and the names of existing orders. Raises BadParameter."""
        if isinstance(value, NamedOrders):
            return value
        database, sign, names = str(value).rpartition("=")
        keys, _, data = names.partition(",")
        if not sign or not database or not keys:
            self.fail(f"{value!r} names no order; write DB=NAME, such as people=decimal", param, ctx)
        from engine.errors import UsageError
        from engine.tree.comparators import find_order

        try:
            for name in filter(None, (keys, data)):
                find_order(name)
        except UsageError as error:
            self.fail(str(error), param, ctx)
        return NamedOrders(database, keys, data or None)


ORDER: Final = OrderType()


def _base(formats: Sequence[str]) -> list[click.Option]:
    options = [
        click.Option(
            ["-o", "--format", "form"], type=FormatType(formats), help=f"Output format.  [default: {formats[0]}]"
        ),
        click.Option(["--json"], is_flag=True, help="The same as --format json."),
        click.Option(
            ["--output"],
            metavar="FILE",
            type=click.Path(),
            help="Write results to FILE, which appears only when it is complete.",
        ),
        click.Option(["--color"], type=_choice("auto", "always", "never"), help="Colours; auto: on a terminal."),
        click.Option(["-q", "--quiet"], is_flag=True, help="No messages but errors."),
        click.Option(["-v", "--verbose"], count=True, help="More messages."),
    ]
    return [option for option in options if option.name != "json" or "json" in formats]


def _fields() -> list[click.Option]:
    return [click.Option(["--fields"], type=params.FIELDS, help="Print only these fields, in this order.")]


def _progress() -> list[click.Option]:
    text = "Progress on standard error; auto: on a terminal."
    return [click.Option(["--progress"], type=_choice("auto", "never", "json"), help=text)]


def _times() -> list[click.Option]:
    text = "Time zone of times: UTC, local, +01:00, Europe/Berlin.  [default: UTC]"
    return [click.Option(["--tz"], type=params.ZONE, is_eager=True, help=text)]


def _keys() -> list[click.Option]:
    text = "Format of keys, in the output and on the command line: " + ", ".join(KEY_FORMATS) + "."
    return [
        click.Option(["--key-format"], type=_choice(*KEY_FORMATS), metavar="FORMAT", is_eager=True, help=text),
        click.Option(
            ["--data-format"],
            type=_choice(*KEY_FORMATS),
            metavar="FORMAT",
            is_eager=True,
            help="Format of data, by the same names.",
        ),
    ]


def _jobs() -> list[click.Option]:
    text = "Number of processes.  [default: one per CPU]"
    return [click.Option(["--jobs"], type=click.IntRange(1, 1024), metavar="N", help=text)]


def _lock() -> list[click.Option]:
    text = "Seconds to wait for the environment's lock; 0 tries once."
    return [click.Option(["--lock-timeout"], type=click.FloatRange(0, 86_400), metavar="S", help=text)]


def _cache() -> list[click.Option]:
    text = "Memory for the nodes of the trees.  [default: je.maxMemory, or 2% of the free memory, 64MiB at least]"
    return [click.Option(["--cache"], type=params.CacheType(), metavar="SIZE|N%", help=text)]


def _order() -> list[click.Option]:
    text = (
        "The key order of DB, if jetool does not know its Java class; with duplicates NAME,NAME for keys and data."
        " Names are in jetool-orders(7). Repeatable."
    )
    return [click.Option(["--comparator"], type=ORDER, multiple=True, metavar="DB=NAME", help=text)]


def _spark() -> list[click.Option]:
    return [
        click.Option(["--master"], metavar="URL", help="The Spark cluster.  [default: local mode, one thread per job]"),
        click.Option(
            ["--conf"],
            multiple=True,
            metavar="K=V",
            help="A setting of Spark, such as spark.driver.memory=4g; repeatable.",
        ),
    ]


def _tls() -> list[click.Option]:
    return [
        click.Option(
            ["--tls-ca"],
            metavar="FILE",
            envvar="JETOOL_TLS_CA",
            help="Speak TLS, as nodes with je.rep.channelType=ssl do, and trust these certificates (PEM; also from"
            " JETOOL_TLS_CA).",
        ),
        click.Option(
            ["--tls-cert"],
            metavar="FILE",
            envvar="JETOOL_TLS_CERT",
            help="Certificate of this client, for nodes that require one (PEM; also from JETOOL_TLS_CERT).",
        ),
        click.Option(
            ["--tls-key"],
            metavar="FILE",
            envvar="JETOOL_TLS_KEY",
            help="Key of the certificate, if not in the same file (PEM; also from JETOOL_TLS_KEY).",
        ),
        click.Option(["--tls-check-host"], is_flag=True, help="Require that certificates of nodes name their hosts."),
    ]


def _plan() -> list[click.Option]:
    return [click.Option(["-n", "--dry-run"], is_flag=True, help="Print the plan and change nothing.")]


def _consent() -> list[click.Option]:
    return [*_plan(), click.Option(["--yes"], is_flag=True, help="Do not ask for confirmation.")]


def _write() -> list[click.Option]:
    return [
        *_consent(),
        click.Option(
            ["--backup-dir"], metavar="DIR|none", help="Directory for bytes that are saved before they are changed."
        ),
    ]


FEATURES: Final[dict[str, Callable[[], list[click.Option]]]] = {
    "fields": _fields,
    "progress": _progress,
    "times": _times,
    "keys": _keys,
    "jobs": _jobs,
    "lock": _lock,
    "cache": _cache,
    "order": _order,
    "spark": _spark,
    "write": _write,
    "plan": _plan,
    "consent": _consent,
    "tls": _tls,
}
_HARMLESS: Final = ("progress", "times", "keys")
# Features whose options may only follow the command's name.
_AFTER_NAME: Final = ("write", "plan", "consent", "spark", "tls")


def shared(formats: Sequence[str], features: Iterable[str]) -> list[click.Option]:
    """The shared options of one command.

    Arguments:
        formats: the formats it has, the default first.
        features: names of ``FEATURES``.
    """
    chosen = _base(formats) + [option for name in features for option in FEATURES[name]()]
    unlisted = [option for name in _HARMLESS if name not in features for option in FEATURES[name]()]
    # These options are accepted without effect, so hide them from the help.
    for option in unlisted:
        option.hidden = True
    return chosen + unlisted


def leading() -> list[click.Option]:
    """The options that may precede the command's name. There their values stay as written; the command parses them."""
    taken = (make for name, make in FEATURES.items() if name not in _AFTER_NAME)
    options = [*_base(FORMATS), *(option for make in taken for option in make())]
    options.append(click.Option(["-h", "--home"], type=params.DIRECTORY, help="The environment, instead of ENV."))
    for option in options:
        if not option.is_flag and not option.count:
            # The command parses the value, because only the command has the list of its formats.
            option.type = Unread(option.type)
    return options


def print_and_exit(text: Callable[[click.Context], str]) -> Callable[[click.Context, click.Parameter, bool], None]:
    """A callback for an option that prints a text and exits. It detects a full disk, unlike Click's own callback.

    Arguments:
        text: gives the text.
    """

    def callback(ctx: click.Context, param: click.Parameter, value: bool) -> None:  # noqa: ARG001 - Click's signature
        if value and not ctx.resilient_parsing:
            from jetool.output.sink import StandardOutput

            # The sink reports a full disk and a closed pipe in the same way as for results.
            out = StandardOutput()
            out.open()
            out.write(text(ctx).encode() + b"\n")
            out.commit()
            ctx.exit()

    return callback


def help_option() -> click.Option:
    """The option ``--help``, without the short form ``-h``, which names the environment."""
    return click.Option(
        ["--help"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=print_and_exit(lambda ctx: ctx.get_help()),
        help="Print this text.",
    )


class TlsOptions(NamedTuple):
    """The ``tls`` options as given; ``ca``, ``cert`` and ``key`` are files."""

    ca: str | None
    cert: str | None
    key: str | None
    check_host: bool


@dataclass(frozen=True, slots=True)
class Run:
    """The objects and shared options that a command gets in addition to its own parameters.

    Attributes:
        out: where results go.
        messages: prints everything else for people.
        listener: receives the progress steps of the engine.
        jobs: number of processes allowed.
        lock_timeout_s: seconds to wait for a lock, 0 for one try.
        cache_bytes: cache size of an environment, None for the default.
        orders: key orders specified by the user, by database.
        environments: number of environments open at the same time, which share the default cache.
        dry_run: whether to print only the plan.
        yes: whether the user has confirmed.
        backup_dir: place of saved bytes: a directory, ``none``, or None for the default.
        master: the Spark cluster, None for the default.
        conf: settings of Spark as typed.
        tls: the TLS options (``jetool.frame.networks``); None for commands that call no node.
    """

    out: Output
    messages: Messages
    listener: Reporter
    jobs: int
    lock_timeout_s: float
    dry_run: bool
    yes: bool
    backup_dir: str | None
    master: str | None = None
    conf: tuple[str, ...] = ()
    cache_bytes: int | None = None
    orders: tuple[NamedOrders, ...] = ()
    environments: int = 1
    tls: TlsOptions | None = None


def take(values: dict[str, Any], formats: Sequence[str]) -> tuple[Run, Sink]:
    """Build the run from the shared parameters, and remove these from ``values``.

    Arguments:
        values: all parameters of the command.
        formats: the formats of the command, the default first.

    Returns:
        The run, and the sink of its output, which the caller must open, and commit or abandon.

    Raises:
        UsageError: ``--json`` beside another ``--format``.
    """
    from jetool.output import messages, render, sink

    form = _format(values.pop("form", None), values.pop("json", False), formats)
    choice = values.pop("color", None) or "auto"
    path = values.pop("output", None)
    quiet, verbose = values.pop("quiet", False), values.pop("verbose", 0)
    listener = messages.make_reporter(values.pop("progress", None) or "auto", quiet=quiet)
    # Results in a file have colours only on request.
    seen = path is None and messages.is_terminal(sys.stdout)
    style = _style(values, messages.color(choice, seen))._replace(width=messages.width(terminal=seen))
    target: Sink = sink.FileOutput(path) if path not in (None, "-") else sink.StandardOutput(_before_results(listener))
    run = Run(
        out=render.Renderer(form, style, values.pop("fields", None), target),
        messages=messages.Messages(
            messages.QUIET if quiet else verbose,
            color=messages.color(choice, messages.is_terminal(sys.stderr)),
            before=listener.pause,
        ),
        listener=listener,
        jobs=values.pop("jobs", None) or os.cpu_count() or 1,
        lock_timeout_s=values.pop("lock_timeout", None) or 0.0,
        dry_run=values.pop("dry_run", False),
        yes=values.pop("yes", False),
        backup_dir=values.pop("backup_dir", None),
        master=values.pop("master", None),
        conf=tuple(values.pop("conf", None) or ()),
        cache_bytes=values.pop("cache", None),
        orders=tuple(values.pop("comparator", None) or ()),
        tls=_tls_options(values) if "tls_ca" in values else None,
    )
    return run, target


def _tls_options(values: dict[str, Any]) -> TlsOptions:
    return TlsOptions(
        ca=values.pop("tls_ca"),
        cert=values.pop("tls_cert"),
        key=values.pop("tls_key"),
        check_host=values.pop("tls_check_host"),
    )


def _format(form: str | None, json: bool, formats: Sequence[str]) -> str:
    if json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} exclude each other", click.get_current_context())
    return "json" if json else form or formats[0]


def _style(values: dict[str, Any], color: bool) -> Any:
    from jetool.output.shape import PLAIN

    # Options that were not given are None; for these keep the defaults of PLAIN.
    given = {name: values.pop(name, None) for name in ("tz", "key_format", "data_format")}
    return PLAIN._replace(color=color, **{name: value for name, value in given.items() if value is not None})


def _before_results(listener: Reporter) -> Callable[[bytes], None] | None:
    """The function to call before results are written; it erases the bar. None if results do not go to the terminal of
    the bar.
    """
    from jetool.output.messages import is_terminal

    # Results in a pipe do not collide with the bar, so it may stay.
    return listener.make_way if is_terminal(sys.stdout) else None
