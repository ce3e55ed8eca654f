'''Commands: each has options, calls the engine, and renders the result.

A command is a module. A larger command is a package with the module ``command``, and further modules for its output
rows, modes and so on. Code that several commands share is in ``jetool.frame``.

How to write one:

1. Make a module here with a function of the same name (``-`` becomes ``_``), and add a row to ``jetool.frame.table``.
2. Declare its output as record classes, whose fields have a kind and a help text (``engine.fields``). They give the
   columns, the names for ``--fields`` and the JSON Schema; a test compares real output with them (``assert_valid``).
   Records are built by keyword.
3. Decorate the function with ``command`` and name formats, features, examples and exit codes. ``--help``, the man page
   (``python -m jetool.frame.manpages --write man``) and the tests take them from there.
4. The function gets a ``Run`` and its parameters and returns an exit code of ``jetool.frame.exits``. It raises errors
   of ``engine.errors`` to end the run, and never prints: results go to ``run.out``, messages to ``run.messages``,
   progress steps to ``run.listener``.
5. The function serves JE environments; a Derby database is refused before the function is called. A command that also
   works on Derby is a method of ``jetool.frame.verbs.Verbs`` and a function of ``jetool.commands.derby_verbs``, with
   the parameters of the command; no command checks the kind itself. ``check`` reports options that are wrong for both
   kinds.

A complete command::

    """``jetool count``: entries by type."""

    from __future__ import annotations

    from typing import Annotated, NamedTuple

    import click

    from engine.counting import count_entries
    from engine.fields import Int, Text, record
    from engine.storage.disk import DiskStorage
    from jetool.frame import exits, params
    from jetool.frame.command import Outputs, command, environment
    from jetool.frame.kinds import require_je
    from jetool.frame.options import Run


    @record("counted")
    class TypeCount(NamedTuple):
        """Entries of one type."""

        type: Annotated[Text, "name of the type"]
        entries: Annotated[Int, "how many there are"]


    @command(
        "count",
        outputs=lambda: Outputs("table", (TypeCount,)),
        features=("fields", "progress", "times"),
        examples=(
            ("Entries by type", "jetool count /data/env"),
            ("Those of the last quarter of an hour", "jetool count /data/env --since -15m --json"),
        ),
        exits={exits.DONE: "read to the end", exits.NOT_FOUND: "no environment", exits.INCOMPLETE: "stopped at damage"},
    )
    @environment
    @click.option("--since", type=params.TIME, help="Leave out transactions that ended before TIME.")
    def count(run: Run, env: str, since: int | None) -> int:
        """Count the entries of the log by type."""
        storage = DiskStorage(env)
        require_je(storage)
        counts = count_entries(storage, since_ms=since, listener=run.listener)
        run.out.table(TypeCount, [TypeCount(type=name, entries=count) for name, count in counts.items()])
        return exits.DONE

Streams of any length (``dump-log``)::

    with run.out.stream(Entry, BadStretch, line=text_line) as stream:
        for chunk in pool.imap(partial(render_file, stream.encoder), files):  # bytes, from encoder.rows(...)
            stream.write(chunk)
        stream.end(DumpSummary(entries=entries, bad=bad))

Findings (``verify``)::

    found = run.out.findings(RULES, [env])
    for finding in check(...):
        found.add(finding)
    found.end(CheckSummary(...))

A command with subcommands is a ``group``; each subcommand names it as ``parent``::

    vlsn = group("vlsn", help="The VLSN range and index of a replicated environment.", examples=...)

    @command("map", parent=vlsn, ...)
    @environment
    def vlsn_map(run: Run, env: str) -> int: ...
'''
