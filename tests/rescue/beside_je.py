"""``python -m tests.rescue.beside_je --je /path/to/classes [--points 300] [--seed 1]``: truncations that JE opens.

Environments of the corpus that JE has written, and in turn such as a workload makes here with databases created,
renamed and removed, are cut by ``jetool truncate`` at random entries. Of each copy: neither JE (DbVerifyLog, DbVerify)
nor we find anything wrong, and all databases have the same dump here and there, which is that of the uncut environment
``--as-of`` the same point. JE goes on with every second one, writing and cleaning, and again nothing is wrong; of the
``jetool undo`` brings every byte back. A point that is refused leaves all as it was, and does not count. One line for
each environment; 1 when one fails.
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engine.storage.disk import DiskStorage
from jetool.frame import exits
from tests.cleaner.beside_je import Je, errors
from tests.support import corpus
from tests.support.environments.models import Modelled, entries_of
from tests.support.harness import run

_POINTS_EACH: Final = 6
_REFUSED: Final = "refused"


def sources(room: Path, seed: int) -> Iterator[Path]:
    """Environments to be cut, without end."""
    written = random.Random(seed)
    of_je = sorted({path.parent for path in (corpus.path() / "je" / "je-18.3.20").glob("**/env/*.jdb")})
    while True:
        shutil.copytree(written.choice(of_je), room / f"je{seed}")
        yield room / f"je{seed}"
        (room / f"own{seed}").mkdir()
        for name, data in Modelled(seed).files.items():
            (room / f"own{seed}" / name).write_bytes(data)
        yield room / f"own{seed}"
        seed += 1


def wrong_of(je: Je, env: Path, when: str) -> list[str]:
    """What both find wrong in an environment."""
    return [f"{when}: {found}" for found in (je.ask("check", env), *errors(env)) if found]


def dumps(env: Path, *point: str) -> dict[str, bytes]:
    """All databases."""
    listed = run("dbs", env, *point, "--json").json()["records"]
    return {one["name"]: run("dump", env, "--db", one["name"], *point).out for one in listed if not one["internal"]}


def unlike(je: Je, env: Path, here: dict[str, bytes]) -> list[str]:
    """Databases that JE dumps otherwise."""
    file = env.with_suffix(".dump")
    answers = {name: je.ask("dump", env, name, file) or file.read_bytes() for name in here}
    return [f"the dumps of {name} differ: {str(answers[name])[:200]}" for name in here if answers[name] != here[name]]


def files_of(env: Path) -> dict[str, bytes]:
    """The log."""
    return {str(path.relative_to(env)): path.read_bytes() for path in env.rglob("*.jdb")}


def cut(je: Je, whole: Path, env: Path, lsn: int, last: str) -> list[str]:
    """One truncation of a copy, and what comes after it; what is wrong."""
    shutil.copytree(whole, env)
    point = f"lsn:{lsn >> 32:#x}/{lsn & 0xFFFFFFFF:#x}"
    done = run("truncate", env, "--to", point, "--yes", "--json")
    if done.code in (exits.REFUSED, exits.NOT_FOUND):
        return [_REFUSED] if files_of(env) == files_of(whole) else ["refused, and changed"]
    if done.code not in (exits.DONE, exits.DATA_GIVEN_UP):
        return [done.err]
    here = dumps(env)
    wrong = wrong_of(je, env, "cut") + unlike(je, env, here)
    if here != dumps(whole, "--as-of", point):
        wrong.append("it is another state than that of then")
    if last == "undo":
        if done.json()["changed"] and (run("undo", env).code or files_of(env) != files_of(whole)):
            wrong.append("undo has not brought the log back")
    elif last == "go":
        answer = je.ask("go", env, lsn & 0xFFFF, "-")
        wrong += [f"gone on: {answer}"] if answer else [*wrong_of(je, env, "gone on"), *unlike(je, env, dumps(env))]
    return wrong


def main() -> int:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--je", required=True, help="JE's classes")
    parser.add_argument("--points", type=int, default=300, help="truncations  [default: 300]")
    parser.add_argument("--seed", type=int, default=1, help="of the first environment  [default: 1]")
    options = parser.parse_args()
    failed = made = refused = 0
    with tempfile.TemporaryDirectory(prefix="jetool-truncations-") as directory:
        room, chosen = Path(directory), random.Random(options.seed)
        je = Je(options.je, room / "je.log")
        for whole in sources(room, options.seed):
            if made >= options.points:
                break
            # What JE does not open, or finds something wrong in, shows nothing here.
            if not wrong_of(je, whole, "whole"):
                entries = entries_of(DiskStorage(whole))
                # A member of a group is not for a JE without one to write to.
                last = ["undo", "" if any(entry.replicated for entry in entries) else "go"]
                wrong = []
                for at, entry in enumerate(chosen.sample(entries[8:], min(_POINTS_EACH, len(entries) - 8))):
                    found = cut(je, whole, room / f"{whole.name}-{at}", entry.lsn, last[at % 2])
                    refused += found == [_REFUSED]
                    made += found != [_REFUSED]
                    wrong += [f"{entry.lsn:#x} {one}" for one in found if one != _REFUSED]
                print(f"{whole.name}: {made} points, {refused} refused, {wrong or 'sound'}", flush=True)
                failed += bool(wrong)
            for path in room.glob(f"{whole.name}*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        je.close()
    print(f"{made} truncations, {refused} refused, {failed} environments failed")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
