"""``verify`` on several directories: a verdict for each, one summary, the worst exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import corpus
from tests.support.harness import assert_valid, run

DAMAGED = "je/je-18.3.20/corrupt-middle/env"
SOUND = "je/je-18.3.20/ha-group/node1/env"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a sound environment, a damaged one, a Derby database, an empty directory and a file."""
    made = tmp_path_factory.mktemp("several")
    corpus.copy(corpus.path() / SOUND, made / "a")
    corpus.copy(corpus.path() / DAMAGED, made / "b")
    assert run("create", made / "c", "--store", "derby", "--db", "t").code == 0
    (made / "d").mkdir()
    (made / "e.txt").write_text("")
    return made


def _glob(places: Path) -> list[Path]:
    return sorted(places.iterdir())


def test_each_has_a_verdict(places: Path) -> None:
    done = run("verify", *_glob(places))
    assert done.code == 1
    heads = [line for line in done.text.splitlines() if line.startswith(str(places))]
    words = [line.removeprefix(f"{places}/").split(": ")[:2] for line in heads]
    assert words == [["a", "sound"], ["b", "damaged"], ["c", "no damage seen"], ["d", "skipped"], ["e.txt", "skipped"]]
    assert "  ERROR JE-TAIL-002" in done.text


def test_an_environment_without_its_log_is_not_skipped(places: Path, tmp_path: Path) -> None:
    """JE leaves je.lck and others: a monitor must not be green when all log files are gone."""
    gone = tmp_path / "gone"
    gone.mkdir()
    (gone / "je.lck").touch()
    done = run("verify", places / "a", gone, "--json")
    assert (done.code, [row["verdict"] for row in done.json()["records"]]) == (7, ["sound", "cannot be judged"])


def test_a_directory_with_several_environments_is_not_skipped(places: Path) -> None:
    done = run("verify", places / "a", places, "--json")
    assert (done.code, [row["verdict"] for row in done.json()["records"]]) == (7, ["sound", "cannot be judged"])


def test_a_word_that_is_no_pair_is_refused_before_the_first_environment(places: Path) -> None:
    done = run("verify", places / "a", places / "b", "--secondary", "nosuch=paths")
    assert (done.code, done.text) == (2, "")
    assert "--secondary takes NAME:PRIMARY: nosuch=paths" in done.err


def test_an_environment_without_the_database_is_not_skipped(places: Path) -> None:
    done = run("verify", places / "a", places / "b", "--secondary", "nosuch:paths", "--json")
    assert done.code != 0
    assert "skipped" not in {row["verdict"] for row in done.json()["records"]}


@pytest.mark.parametrize("name", ["lost+found", ".snapshot"])
def test_directories_of_the_file_system_are_skipped(places: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    done = run("verify", places / "a", tmp_path / name, "--json")
    assert (done.code, [row["verdict"] for row in done.json()["records"]]) == (0, ["sound", "skipped"])


def test_json_has_an_object_for_each(places: Path) -> None:
    done = run("verify", *_glob(places), "--json")
    assert_valid("verify", done.out)
    value = done.json()
    rows = {row["environment"].removeprefix(f"{places}/"): row for row in value["records"]}
    assert [row["exit_code"] for row in rows.values()] == [0, 1, 0, None, None]
    alone = run("verify", places / "b", "--json").json()
    assert [{"rec": "finding", **found} for found in rows["b"]["findings"]] == alone["findings"]
    assert rows["b"]["not_checked"] == alone["summary"]["not_checked"]
    wanted = {"environments": 3, "clean": 2, "damaged": 1, "unjudged": 0, "skipped": 2, "errors": 1}
    assert value["summary"].items() >= wanted.items()


def test_ndjson_has_a_line_for_each_and_a_summary(places: Path) -> None:
    done = run("verify", *_glob(places), "-o", "ndjson")
    assert_valid("verify", done.out, "ndjson")
    assert [line["rec"] for line in done.lines()] == ["environment"] * 5 + ["summary"]


@pytest.mark.parametrize("form", ["junit", "sarif", "prometheus"])
def test_formats_of_other_programs_name_the_environment(places: Path, form: str) -> None:
    done = run("verify", *_glob(places), "-o", form)
    assert done.code == 1
    assert f"{places}/b/00000005.jdb" in done.text or f'{places}/b",code="JE-TAIL-002"' in done.text
    assert f"{places}/d" not in done.text


def test_directories_without_any_environment_are_an_error(places: Path) -> None:
    done = run("verify", places / "d", places / "e.txt")
    assert (done.code, done.out) == (4, b"")
    assert "no environment among the directories" in done.err


def test_a_directory_that_does_not_exist_is_no_skipped_one(places: Path) -> None:
    done = run("verify", places / "a", places / "none", "--json")
    assert done.code == 7
    assert [row["verdict"] for row in done.json()["records"]] == ["sound", "cannot be judged"]
    assert run("verify", places / "none", places / "nothing").code == 4


def test_a_part_of_a_log_is_not_called_sound(places: Path) -> None:
    rows = run("verify", places / "a", places / "c", "--quick", "--json").json()["records"]
    assert [row["verdict"] for row in rows] == ["no damage seen", "no damage seen"]


def test_options_hold_for_all(places: Path) -> None:
    """``-h`` names the first; ``--full`` checks the trees of each."""
    rows = run("verify", places / "a", places / "b", "--full", "--json").json()["records"]
    assert all("tree" in row["checked"] or row["verdict"] == "damaged" for row in rows)
    assert len(run("verify", "-h", places / "a", places / "b", "--json").json()["records"]) == 2
    assert len(run("verify", places / "a", places / "a", "--json").json()["records"]) == 1


def test_a_derby_database_beside_others(places: Path) -> None:
    done = run("verify", places / "c", places / "b", "--tree", "--json")
    assert done.code == 7, "--tree has no meaning for Derby: the database was not checked"
    assert [row["verdict"] for row in done.json()["records"]] == ["cannot be judged", "damaged"]
