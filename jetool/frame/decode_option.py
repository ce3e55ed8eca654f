"""The option ``--decode``, and printing decoded records.

Output records of a command with this option have the fields of ``DecodedFields``; ``decoded`` fills them with a
``DecodingPlan``. Keys and data are still printed as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, ParamSpec

import click

from engine.fields import ABSENT, Absent, Bool, Json, Row, Shape, Shaped, record, shape_of
from jetool.frame.options import Run
from jetool.output.shape import Style, to_text

if TYPE_CHECKING:
    from engine.contents.base import DecodedRecord
    from engine.db.environment import Environment
    from engine.inspect.contents import DecodingPlan
    from engine.rescue.salvage.sources import SalvageSource
    from engine.storage.base import Storage

P = ParamSpec("P")


@record()
class DecodedFields(NamedTuple):
    """The decoded form of a record; output record classes of commands with ``--decode`` have these fields."""

    decoded_key: Annotated[Json | Absent, 'with --decode: the key; {"hex": ...} for what is not known'] = ABSENT
    decoded_data: Annotated[Json | Absent | None, "with --decode: the data"] = ABSENT
    known: Annotated[Bool | Absent, "with --decode: all of the record is known"] = ABSENT


_NAMES: Final = DecodedFields._fields


class DecoderType(click.ParamType[str]):
    """The name of a decoder, or ``auto``."""

    name = "NAME|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name. Raises BadParameter for an unknown name."""
        from engine.contents.registry import AUTO, names

        if value != AUTO and value not in names():
            self.fail(f"no decoder {value!r}; there are {', '.join(names())}, and {AUTO}", param, ctx)
        return str(value)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - Click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[Any]:
        """The names that begin with the typed text."""
        from click.shell_completion import CompletionItem

        from engine.contents.registry import AUTO, names

        return [CompletionItem(name) for name in (AUTO, *names()) if name.startswith(incomplete)]


def decode_option(function: Callable[P, int]) -> Callable[P, int]:
    """The option ``--decode`` (parameter ``decode``) of commands that print records."""
    text = (
        "Also print records decoded as their application reads them: a decoder's name, or auto for the one that "
        "recognises the environment."
    )
    return click.option("--decode", type=DecoderType(), help=text)(function)


def decoding_for(run: Run, env: Environment, name: str | None) -> DecodingPlan | None:
    """How to decode the records of an open environment; None if not requested, or if no decoder recognises them."""
    if name is None:
        return None
    from engine.inspect.contents import decoding_of

    return _told(run, env.home, decoding_of(env, name))


def decoding_for_log(run: Run, storage: Storage, name: str | None) -> DecodingPlan | None:
    """How to decode the records of a log; the environment is recovered in memory for that, or salvaged."""
    if name is None:
        return None
    from engine.rescue.salvage.meanings import decoding_of_log

    return _told(run, storage.root, decoding_of_log(storage, name))


def decoding_for_source(run: Run, source: SalvageSource, name: str | None) -> DecodingPlan | None:
    """How to decode salvaged records; if the environment cannot be recovered, its log is read once more."""
    if name is None:
        return None
    from engine.rescue.salvage.meanings import decoding_of_source

    return _told(run, source.nodes[0].env, decoding_of_source(source, name))


def _told(run: Run, env: str, found: DecodingPlan | None) -> DecodingPlan | None:
    if found is None:
        run.messages.notice(
            "no decoder recognises the product that the environment belongs to",
            file=env,
            consequence="records are printed as they are",
            hint="name a decoder with --decode",
        )
    return found


def decoded_shape(of: Shaped, decoding: DecodingPlan | None) -> Shape:
    """The shape of a record class, with the fields of ``--decode`` only if they are printed."""
    shape = shape_of(of)
    if decoding is not None:
        return shape
    return shape._replace(fields=tuple(field for field in shape.fields if field.name not in _NAMES))


def decoded(found: DecodedRecord | None) -> DecodedFields:
    """A decoded record for output; None if it was not decoded."""
    if found is None:
        return DecodedFields()
    return DecodedFields(decoded_key=found.key, decoded_data=found.data, known=found.known)


def decoded_line(row: Row, style: Style) -> str | None:
    """Key and data of a decoded record on one line; None for a row that is not completely decoded."""
    values = {name: to_text(kind, value, style) for name, kind, value in row if name in _NAMES}
    if len(values) < len(_NAMES):
        return None
    unsure = "" if values["known"] == "yes" else "  (not all is known)"
    return f"{values['decoded_key']}  {values['decoded_data']}{unsure}"
