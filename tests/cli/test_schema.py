"""``jetool schema``."""

from __future__ import annotations

import jsonschema_rs
import pytest

from engine.fields import Field, Shape
from jetool.frame import cli, schemas
from jetool.output.shape import record_schema
from tests.support.harness import assert_valid, assert_valid_error, run


def test_list_names_every_command_with_structured_output() -> None:
    result = run("schema", "--json")
    assert_valid("schema", result.out)
    expected = [name for name, command in cli.commands() if command.outputs().form != "text"]
    assert [row["command"] for row in result.json()["records"]] == expected
    assert "schema" in run("schema").text


def test_unknown_command_and_command_without_schema() -> None:
    for words in (["nope"], ["completion"], ["schema", "extra"]):
        result = run("schema", *words, "--json")
        assert result.code == 4
        assert_valid_error(result)


@pytest.mark.usefixtures("samples")
def test_schema_of_a_command_in_a_group_and_of_each_form() -> None:
    for name in ("sample", "control", "rows", "check"):
        schema = run("schema", name).json()
        jsonschema_rs.meta.validate(schema)
        assert schema["title"] == f"jetool {name}"
        assert set(schema["$defs"]) == {"line", "error", "progress"}


def test_fields_become_properties() -> None:
    shape = Shape(
        "r",
        "A record.",
        (
            Field("plain", "int", "a"),
            Field("maybe", "text", "b", optional=True, choices=("x", "y")),
            Field("null", "bytes", "c", null=True),
            Field("lsns", "lsns", "d"),
            Field("deep", "records", "e", fields=(Field("in", "bool", "f"),)),
            Field("free", "record", "g"),
        ),
    )
    schema = record_schema(shape, with_rec=True)
    assert schema["required"] == ["rec", "plain", "null", "lsns", "deep", "free"]
    check = jsonschema_rs.Draft202012Validator(schema)
    good = {"rec": "r", "plain": 1, "maybe": "x", "null": None, "lsns": ["0x0/0x0", None], "deep": [{"in": True}]}
    good["free"] = {"anything": 1}
    check.validate(good)
    faults: tuple[dict[str, object], ...] = (
        {"rec": "s"}, {"plain": "1"}, {"maybe": "z"}, {"null": "zz"}, {"lsns": ["0x0"]}, {"lsns": None}, {"deep": [{}]},
        {"free": 1},
    )  # fmt: skip
    for bad in faults:
        assert not check.is_valid({**good, **bad}), bad


def test_published_schema_allows_keys_to_be_added() -> None:
    assert jsonschema_rs.Draft202012Validator(record_schema(schemas.Error, with_rec=True)).is_valid(
        {"rec": "error", "kind": "usage", "exit_code": 2, "what": "x", "new": 1}
    )
