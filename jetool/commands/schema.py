"""``jetool schema``: the JSON Schemas of jetool's output, for programs that read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import click

from engine.errors import NotFoundError
from engine.fields import Text, record, shape_of
from jetool.frame import exits
from jetool.frame.command import Outputs, command
from jetool.frame.options import Run


@record("command")
class CommandSchema(NamedTuple):
    """A command with output for programs."""

    command: Annotated[Text, "the words that call it"]
    formats: Annotated[Sequence[Text], "its formats, the default first"]
    records: Annotated[Sequence[Text], "values of rec in its NDJSON output"]


@command(
    "schema",
    outputs=lambda: Outputs("table", (CommandSchema,)),
    formats=("text", "json"),
    examples=(
        ("Which commands have a schema", "jetool schema"),
        ("The schema of one of them", "jetool schema info"),
    ),
    exits={exits.DONE: "the schema was printed", exits.NOT_FOUND: "no such command, or it has no schema"},
)
@click.argument("words", metavar="[COMMAND]", nargs=-1, help="A command, such as dump-log or vlsn map.")
def schema(run: Run, words: tuple[str, ...]) -> int:
    """Print the JSON Schema (draft 2020-12) of what COMMAND prints, or list the commands that have one.

    The schema describes the value of --format json; $defs/line in it describes a line of --format ndjson, $defs/error
    the object that goes with an error, and $defs/progress a line of --progress json.

    Later versions may add keys; an existing key keeps its meaning.
    """
    from jetool.frame import cli, schemas
    from jetool.output import jsonl

    found = {name: made for name, made in cli.commands() if made.outputs().form != "text"}
    if words:
        name = " ".join(words)
        if name not in found:
            raise NotFoundError(f"no schema for a command {name!r}", hint="jetool schema")
        run.out.text(jsonl.pretty(schemas.of(name, found[name])).decode())
        return exits.DONE
    rows = [
        CommandSchema(
            command=name,
            formats=made.formats,
            records=[shape_of(one).rec for one in made.outputs().records],
        )
        for name, made in found.items()
    ]
    run.out.table(CommandSchema, rows)
    return exits.DONE
