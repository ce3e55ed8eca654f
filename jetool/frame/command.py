"""Commands: Click's commands with jetool's guarantees.

* A command declares its formats, features, outputs, examples and exit codes; ``--help``, the man page, ``jetool
  schema`` and the tests read that declaration.
* ``-h DIR`` and ``JETOOL_HOME`` replace the first ENV argument, whatever its position.
* Options before the command's name count as if they came after it.
* The result is committed when the command returns an exit code, and abandoned when it raises.
* Only this module selects the function for a verb by the kind of the environment. The function of a command serves JE
  environments. ``Verbs`` lists the commands that also exist for another kind. For a Derby database
  ``jetool.commands.derby_verbs`` is imported, which serves them with the parameters of the command. For all other verbs
  a Derby database is refused (exit 2).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Concatenate, Final, NamedTuple, ParamSpec

import click

from engine.errors import plural
from jetool.frame import exits, options, params, table
from jetool.frame.groups import LEADING, CommandGroup, explained, without_effect
from jetool.frame.options import Run
from jetool.frame.verbs import SHARED, Verb

if TYPE_CHECKING:
    from engine.fields import Shaped

P = ParamSpec("P")
_HOME: Final = "JETOOL_HOME"
# The limit at which Click cuts a sentence, larger than any sentence.
_LONGEST_SENTENCE: Final = 1000
# Copied from engine.storage.journal, so that commands that only read need not load that module.
_MARKER: Final = "jetool.repair"
_UNDO: Final = "undo"


class Outputs(NamedTuple):
    """The output of a command, for ``jetool schema``.

    Attributes:
        form: ``document``, ``table``, ``stream``, ``findings`` or ``text``.
        records: the record classes of the document, table or stream.
        summary: the class of the summary, for streams and findings, and for tables whose summary is more than the
            count.
        derby: the classes that are printed only for a Derby database.
        several: the classes of a row and of the summary if the command is given several environments.
    """

    form: str
    records: tuple[Shaped, ...] = ()
    summary: Shaped | None = None
    derby: tuple[Shaped, ...] = ()
    several: tuple[Shaped, Shaped] | None = None


class Command(click.Command):
    """One command.

    Attributes:
        formats: the formats of the command, the default first.
        examples: pairs of a description and a command line.
        exits: meanings of its exit codes, without the codes that every command has.
        outputs: returns its outputs. It is a function, so that ``--help`` need not load shapes.
        kind_option: the option for the kind of the environment (``jetool.frame.kinds``); None: detect it from the
            files.
        check: raises an error for parameters that are wrong for every environment; called before the environment is
            read.
        writes: whether it changes an environment.
        names_end: whether its result states the end of the log.
        any_directory: whether the command itself looks at what a directory is.
        home: returns the directory of the environment, which ENV names or contains.
        several: runs the command on several environments (parameter ``more``); None if it takes only one. It gets a
            function that runs the command on one of them.
        instead: the name of an option whose file the command reads instead of an environment; None: it has none.
    """

    formats: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    exits: Mapping[int, str] = {}
    outputs: Callable[[], Outputs]
    kind_option: str | None = None
    check: Callable[..., None] | None = None
    writes: bool = False
    names_end: bool = False
    any_directory: bool = False
    home: Callable[[str], str] = str
    several: Callable[[Run, Sequence[str], Callable[[Run, str], int]], int] | None = None
    instead: str | None = None

    def get_short_help_str(self, limit: int = 45) -> str:
        """The whole first sentence, uncut, since the list of commands wraps long texts."""
        return super().get_short_help_str(max(limit, _LONGEST_SENTENCE)).rstrip(".")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse with the leading options prepended and ENV filled in."""
        # Completion parses an incomplete line, so a missing argument is not an error.
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        words = [word for option in ctx.meta.get(LEADING, ()) for word in self._accepted(ctx, option)]
        # Put the leading options first, so that an option after the command's name overrides them.
        args = self._with_values(words + args)
        with explained(ctx):
            return super().parse_args(ctx, self._with_home(ctx, args))

    def _with_values(self, args: list[str]) -> list[str]:
        """The words, with a value added to each option whose value was omitted: ``--stats ENV`` becomes ``--stats=type
        ENV``.

        Click would use any following word as the value of such an option.
        """
        found = list(args)
        end = found.index("--") if "--" in found else len(found)
        for option in self.params:
            if not isinstance(option, click.Option) or option.is_flag or not isinstance(option.type, click.Choice):
                continue
            # Without a value to add, Click has a placeholder here that it does not publish.
            if not isinstance(option.flag_value, str):
                continue
            for at, word in enumerate(found[:end]):
                after = found[at + 1] if at + 1 < len(found) else ""
                if word in option.opts and after not in option.type.choices:
                    found[at] = f"{word}={option.flag_value}"
        return found

    def _accepted(self, ctx: click.Context, words: list[str]) -> list[str]:
        name = words[0].partition("=")[0]
        if not any(name in param.opts for param in self.params):
            raise without_effect(ctx, name)
        return words

    def _with_home(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The arguments, with the environment inserted first if it was given by option or by variable."""
        arguments = [param for param in self.params if isinstance(param, click.Argument)]
        if not arguments or arguments[0].name != "env":
            return args
        home, given, instead = self._probe(ctx, args)
        needed = 0 if instead else sum(1 for argument in arguments if argument.required)
        most = len(arguments) if all(argument.nargs == 1 for argument in arguments) else None
        # The variable applies only if ENV is missing; a given directory takes precedence.
        if home is None and given < needed:
            home = os.environ.get(_HOME) or None
        # Only a command that reads guesses the current directory. A path is not the word that is left.
        if home is None and given < needed and not self.writes and not any(os.sep in word for word in args):
            home = self._current()
        if home is None and not given and instead:
            return [os.curdir, *args]
        if home is None and not given:
            raise click.UsageError(f"no environment: name a directory, or use -h DIR or {_HOME}", ctx)
        if home is None:
            return args
        if given == most:
            raise click.UsageError("the environment is given twice, as an argument and by -h", ctx)
        # A directory called ``-x`` must not be read as an option.
        return [home if not home.startswith("-") else f"./{home}", *args]

    def _current(self) -> str | None:
        """The current directory, if it is an environment."""
        from jetool.frame import kinds

        return os.curdir if kinds.is_environment(self.home(os.curdir)) else None

    def _probe(self, ctx: click.Context, args: list[str]) -> tuple[str | None, int, bool]:
        """The value of ``-h``, the number of arguments that are not options, and whether ``instead`` is given."""
        own = [param for param in self.params if isinstance(param, click.Option)]
        # The probe has no arguments of its own, so Click's parser returns every word that is not an option.
        probe = click.Command(self.name, params=[*own], add_help_option=False)
        found, words, _ = probe.make_parser(ctx).parse_args(list(args))
        if found.get("help"):
            return found.get("home") or "help", 0, False
        return found.get("home"), len(words), found.get(self.instead or "") is not None

    def invoke(self, ctx: click.Context) -> int:
        """Run the command; returns its exit code."""
        values = {name: value for name, value in ctx.params.items() if name != "home"}
        run, target = options.take(values, self.formats)
        try:
            self._find_environments(run, values, first=True)
            # Cheap checks first, before the environment is read.
            if self.check is not None:
                self.check(run, **values)
            work = self._work(values)
            self._find_environments(run, values, first=False)
            # Report problems with the output before anything is changed.
            if self.writes:
                self._require_fields(run, values)
                _require_places(run, values)
            target.open()
            code = work(run)
            # Erase the bar first, or it would overwrite later output on standard error.
            run.listener.close()
            target.commit()
        except BaseException:
            run.listener.close()
            target.abandon()
            raise
        return int(code)

    def _find_environments(self, run: Run, values: dict[str, Any], *, first: bool) -> None:
        """Replace directories by the only environment below each, if the command only reads: ENV, or all others."""
        if self.writes or self.any_directory or self._reads_other(values):
            return
        for param in self.params:
            value = values.get(param.name or "")
            # A command for several environments judges each directory by itself.
            if param.type is not params.DIRECTORY or not value or (param.name == "env") != first:
                continue
            if self.several is not None and values.get("more"):
                continue
            found = [self._environment(run, one) for one in ([value] if isinstance(value, str) else value)]
            values[str(param.name)] = found[0] if isinstance(value, str) else tuple(found)

    def _reads_other(self, values: Mapping[str, Any]) -> bool:
        """Whether the option that replaces the environment is given."""
        return values.get(self.instead or "") is not None

    def _environment(self, run: Run, directory: str) -> str:
        from jetool.frame import kinds

        # ``home``: some commands know the layout of an application, and read more than the environment.
        if kinds.is_environment(self.home(directory)):
            return directory
        from jetool.frame.defaults.environment_below import environment_below

        return environment_below(run, directory)

    def _work(self, values: dict[str, Any]) -> Callable[[Run], int]:
        """The function that runs the command on its environments; errors as ``_serving``."""
        several, more = self.several, values.pop("more", ()) if self.several is not None else ()

        def serve_one(run: Run, env: str) -> int:
            return self._work({**values, "env": self._environment(run, env)})(run)

        if several is not None and more:
            return lambda run: several(run, (values["env"], *more), serve_one)
        serve = self._serving(values)

        def serve_it(run: Run) -> int:
            with self._after_interruption(run, values), self._moving_tail_named(run, values):
                return int(serve(run, **values))

        return serve_it

    def _require_fields(self, run: Run, values: Mapping[str, Any]) -> None:
        """Refuse wrong names in ``--fields`` before doing anything. UsageError."""
        if run.out.selected is None:
            return
        from jetool.output.shape import check_fields

        found = self.outputs()
        derby = found.derby and "env" in values and self._is_derby(values)
        shapes = found.derby if derby else tuple(shape for shape in found.records if shape not in found.derby)
        check_fields(run.out.selected, shapes)

    def _is_derby(self, values: Mapping[str, Any]) -> bool:
        from jetool.frame import kinds

        if self.kind_option is not None:
            return bool(values[self.kind_option] == kinds.DERBY)
        return kinds.is_derby(values["env"])

    @contextmanager
    def _after_interruption(self, run: Run, values: Mapping[str, Any]) -> Iterator[None]:
        """Handle a repair that was interrupted before this run, or that this run interrupts."""
        env = values.get("env")
        if not isinstance(env, str):
            yield
            return
        env = self.home(env)
        marker = os.path.join(env, _MARKER)
        # lexists: a dangling link also counts as a marker.
        marked = os.path.lexists(marker)
        changes = self.writes and not run.dry_run and values.get("in_place", True)
        # ``undo`` undoes the repair itself, and prints its own message.
        if marked and self.name != _UNDO:
            from jetool.frame import interrupted

            (interrupted.settle if changes else interrupted.preview)(run, env)
        try:
            yield
        except BaseException as error:
            # Handle only a marker that this run created.
            if changes and not marked and os.path.lexists(marker):
                from jetool.frame import interrupted

                interrupted.stopped(run, env, error)
            raise

    @contextmanager
    def _moving_tail_named(self, run: Run, values: Mapping[str, Any]) -> Iterator[None]:
        """Print a notice if the log grew while the command read it, because the printed end is then outdated."""
        env = values.get("env")
        # A writer moves the end of the log itself, and with --follow growth is expected.
        if self.writes or self.names_end or values.get("follow") or not isinstance(env, str):
            yield
            return
        env = self.home(env)
        before = _log_size(env)
        yield
        grown = _log_size(env) - before
        if grown > 0:
            run.messages.notice(
                f"the tail is moving: {plural(grown, 'byte was', 'bytes were')} appended to the log while it was read",
                file=env,
                consequence="statements about the end of the log are from a moment during the run",
            )

    def _serving(self, values: Mapping[str, Any]) -> Verb:
        """The function that runs the command for the kind of the given environment.

        Raises:
            NotFoundError: the directory does not exist, or is neither kind.
            UsageError: the directory is both kinds, or of a kind without this verb.
        """
        own = self.callback
        assert own is not None
        if "env" not in values or self.any_directory or self._reads_other(values):
            return own
        # For ``create`` the directory is still empty, so its kind cannot be detected.
        if self.kind_option is not None:
            return _of_kind(values[self.kind_option], own)
        from engine.storage.disk import DiskStorage
        from jetool.frame import kinds

        storage = DiskStorage(values["env"])
        if own.__name__ in SHARED:
            return _of_kind(kinds.kind_of(storage), own)
        # If the directory is neither kind, the command runs, because its own error is more precise.
        kinds.require(kinds.JE, storage, self.name or "")
        return own

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options, then the shared ones."""
        shared = {option.name for option in options.shared(options.FORMATS, options.FEATURES)} | {"home", "help"}
        sections: dict[str, list[tuple[str, str]]] = {"Options": [], "Common options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                sections["Common options" if param.name in shared else "Options"].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - Click's
        """Examples and exit codes."""
        with formatter.section("Examples"):
            for text, line in self.examples:
                formatter.write(
                    f"{'':>{formatter.current_indent}}{text}:\n{'':>{formatter.current_indent + 4}}{line}\n"
                )
        write_exits(formatter, self.exits)


def write_exits(formatter: click.HelpFormatter, codes: Mapping[int, str]) -> None:
    """Write a section of these exit codes and the codes that every command has."""
    every = {code: exits.TABLE[code] for code in exits.ALWAYS} | dict(codes)
    with formatter.section("Exit codes"):
        formatter.write_dl([(str(code), every[code]) for code in sorted(every)])


def _log_size(env: str) -> int:
    """Size of all log files of a JE environment; 0 if it cannot be determined."""
    # A simple listing: the engine's listing would raise errors that commands report in their own way.
    try:
        names = [name for name in os.listdir(env) if name.endswith(".jdb")]
        return sum(os.stat(os.path.join(env, name)).st_size for name in names)
    except OSError:
        return 0


def _require_places(run: Run, values: Mapping[str, Any]) -> None:
    """Refuse directories that cannot be created. StorageError."""
    from jetool.frame.environments import require_place

    if run.backup_dir not in (None, "none"):
        require_place(str(run.backup_dir), "--backup-dir")
    if values.get("rejects") is not None:
        require_place(str(values["rejects"]), "--rejects")


def command(
    name: str,
    *,
    outputs: Callable[[], Outputs],
    examples: Sequence[tuple[str, str]],
    exits: Mapping[int, str],
    formats: Sequence[str] = options.FORMATS,
    features: Sequence[str] = (),
    parent: click.Group | None = None,
    kind_option: str | None = None,
    check: Callable[..., None] | None = None,
    writes: bool = False,
    names_end: bool = False,
    any_directory: bool = False,
    several: Callable[[Run, Sequence[str], Callable[[Run, str], int]], int] | None = None,
    instead: str | None = None,
) -> Callable[[Callable[Concatenate[Run, P], int]], Command]:
    """Turn a function into a command. Put this decorator above the function's own options.

    Arguments:
        name: as the user types it.
        outputs: returns the outputs of the command.
        examples: two or more pairs of a description and a command line.
        exits: the exit codes of the command with their meanings, without the codes that every command has.
        formats: the formats of the command, the default first.
        features: the groups of shared options that it supports (``jetool.frame.options``).
        parent: the group of the command, for subcommands such as ``vlsn range``.
        kind_option: the option for the kind of the environment; None: detect it from the files.
        check: called with the arguments of the function before the environment is read; raises UsageError.
        writes: whether it changes an environment although it lacks the feature ``write``.
        names_end: whether its result states the end of the log, so that no message about a growing log is needed.
        any_directory: whether it takes directories of any kind, and looks itself at what each is.
        several: runs the command on several environments, if it takes these.
        instead: the parameter of an option whose file is read instead of an environment; ENV may then be left out.

    Returns:
        A decorator. The function gets a ``Run`` and its own parameters, and returns the exit code.
    """

    def make(function: Callable[Concatenate[Run, P], int]) -> Command:
        made = click.command(name, cls=Command, add_help_option=False)(function)
        made.params.extend([*options.shared(formats, features), options.help_option()])
        made.formats, made.examples = tuple(formats), tuple(examples)
        made.exits, made.outputs, made.kind_option = dict(exits), outputs, kind_option
        made.check, made.writes, made.names_end = check, writes or "write" in features, names_end
        made.any_directory, made.instead = any_directory, instead
        if several is not None:
            made.several = several
            about = "Further environments."
            more = click.Argument(["more"], metavar="[ENV]...", nargs=-1, type=params.DIRECTORY, help=about)
            made.params.insert(1 + next(at for at, one in enumerate(made.params) if one.name == "env"), more)
        if isinstance(parent, CommandGroup):
            made.home = parent.home
        if parent is not None:
            parent.add_command(made)
        return made

    return make


def environment(function: Callable[P, int]) -> Callable[P, int]:
    """The argument ENV (parameter ``env``, a path) and its synonym ``-h/--home``.

    Put it directly below ``command``, so that ENV is the first argument.
    """
    return environment_or("ENV", "Directory of the environment.")(function)


def environment_or(metavar: str, about: str) -> Callable[[Callable[P, int]], Callable[P, int]]:
    """Like ``environment``, for an argument that need not be a directory; the command decides what it is."""

    def make(function: Callable[P, int]) -> Callable[P, int]:
        function = click.argument("env", metavar=metavar, type=params.DIRECTORY, help=about)(function)
        text = f"The environment, instead of ENV (also from {_HOME})."
        return click.option("-h", "--home", type=params.DIRECTORY, help=text)(function)

    return make


def _of_kind(kind: str, own: Verb) -> Verb:
    """The function for a shared verb on a kind of environment; ``own`` is the command's function."""
    from jetool.frame import kinds

    if kind == kinds.JE:
        return own
    # Import by name, as for commands, so that a command on a JE environment never loads Derby code.
    found: Verb = getattr(import_module(table.DERBY_VERBS), own.__name__)
    return found
