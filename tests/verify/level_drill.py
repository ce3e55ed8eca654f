"""All levels of ``verify`` on mutated JE environments: a stronger level finds at least what a weaker one finds.

For each mutation of ``tests.support.damage.mutations`` the levels run as commands, with ``info`` and ``recover -n``, in
a process with 2 GiB of address space. What must hold:

* the findings of a level are among those of each level that includes it;
* a level ends with 1 where one that it includes does, and never with 0 where that ends with 7;
* no command ends as a bug would.

Where ``verify --full`` is clean and ``recover -n`` or ``info`` is not, the mutation is printed for a reader to judge,
unless an unknown order of keys is the reason.

    python -m tests.verify.level_drill 1 10000         seeds 1 to 10,000, in two processes
    python -m tests.verify.level_drill 1 10000 1       in one
    python -m tests.verify.level_drill sound           no level has a finding on environments that nothing is wrong with
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from jetool.frame import exits
from tests.support.damage.mutations import files_of, mutation, sources
from tests.support.harness import run
from tests.support.logs.log_writer import Files

# Each level with the levels that it includes.
INCLUDED: Final[dict[str, tuple[str, ...]]] = {
    "--tail": (),
    "--quick": ("--tail",),
    "--log": ("--tail",),
    "": ("--log", "--tail"),
    "--tree": ("--tail",),
    "--refs": ("--tree",),
    "--data": ("--refs",),
    "--space": ("--tree",),
    "--rep": ("--tail",),
    "--full": ("--log", "--data", "--space", "--rep"),
}
FULL: Final = "--full"
OTHERS: Final = (("info",), ("recover", "-n"))
ROOM_BYTES: Final = 2 << 30
_KEYS: Final = ("code", "severity", "file", "lsn", "db", "key")
_CHUNK: Final = 16


class Verdict(NamedTuple):
    """How a command ended, and what it found; None: it printed no result."""

    code: int
    findings: frozenset[tuple[Any, ...]] | None
    error: str


class Outcome(NamedTuple):
    """One mutation: what must not be, what a reader has to judge, and the exit code of each command."""

    seed: int
    what: str
    misses: tuple[str, ...]
    to_judge: tuple[str, ...]
    codes: tuple[tuple[str, int], ...]
    peak_kib: int


def verdict(env: Path, words: tuple[str, ...], keys: tuple[str, ...] = _KEYS) -> Verdict:
    """Run a command on an environment.

    Arguments:
        keys: of a finding, that tell it from others.
    """
    done = run(words[0], env, *words[1:], "--json")
    found = None
    if words[0] == "verify" and done.out:
        found = frozenset(tuple(row.get(key) for key in keys) for row in done.json()["findings"])
    return Verdict(done.code, found, done.err)


def misses(found: Mapping[str, Verdict], included: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Findings and exit codes of a level that a level which includes it has not."""
    problems = []
    for level, weaker in included.items():
        after = found[level]
        for other in weaker:
            before, name = found[other], f"{other or 'default'} and {level or 'default'}"
            lost = (before.findings or frozenset()) - (after.findings or frozenset())
            if lost:
                problems.append(f"{name}: {sorted(map(str, lost))[:3]}")
            is_lost = before.code == exits.FINDINGS and after.code != exits.FINDINGS
            if is_lost or (before.code == exits.INCOMPLETE and after.code == exits.DONE):
                problems.append(f"{name}: {before.code} and {after.code}")
    return problems


def outcome(
    seed: int, what: str, env: Path, included: Mapping[str, tuple[str, ...]], keys: tuple[str, ...] = _KEYS
) -> Outcome:  # fmt: skip
    """Run all levels and the other commands on an environment."""
    found = {level: verdict(env, ("verify", *filter(None, (level,))), keys) for level in included}
    problems = misses(found, included)
    others = {" ".join(words): verdict(env, words) for words in OTHERS}
    every = {f"verify {level}".strip(): one for level, one in found.items()} | others
    problems += [f"{name}: {one.code}, {one.error[:120]}" for name, one in every.items() if one.code == exits.INTERNAL]
    disagree = [
        f"verify {FULL} is clean, {name} ends with {one.code}: {one.error.strip()[-300:]}"
        for name, one in others.items()
        if one.code != exits.DONE and found[FULL].code == exits.DONE and not _wants_order(one)
    ]
    codes = tuple((name, one.code) for name, one in every.items())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Outcome(
        seed=seed, what=what, misses=tuple(problems), to_judge=tuple(disagree), codes=codes, peak_kib=peak
    )  # fmt: skip


def _wants_order(one: Verdict) -> bool:
    """Whether a command wants an order of keys that it does not know; the levels list such databases."""
    return one.code == exits.UNSUPPORTED and "order of keys" in one.error


def written(place: Path, files: Files) -> Path:
    """A directory with the files, below ``place``."""
    env = place / "env"
    shutil.rmtree(env, ignore_errors=True)
    for name, data in files.items():
        file = env / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return env


def of_seed(seed: int) -> Outcome:
    """The outcome for the mutation of a seed."""
    chosen = mutation(seed)
    with tempfile.TemporaryDirectory(prefix="jetool-levels-") as place:
        return outcome(seed, f"{chosen.source}: {chosen.what}", written(Path(place), chosen.files), INCLUDED)


def faults_of_sound() -> list[str]:
    """Findings, but for notes, of each level on sources that nothing is wrong with, and exit codes that are not 0."""
    found = []
    with tempfile.TemporaryDirectory(prefix="jetool-levels-") as place:
        for name in sources():
            if not is_sound(name):
                continue
            env = written(Path(place), files_of(name))
            for level in INCLUDED:
                one = verdict(env, ("verify", *filter(None, (level,))), ("code", "severity"))
                bad = [row for row in one.findings or () if row[1] != "note"]
                if bad or one.code != exits.DONE:
                    found.append(f"{name} {level}: {one.code}, {bad}")
    return found


def is_sound(name: str) -> bool:
    """Whether nothing is wrong with a source, by what is recorded of JE: it opens, and no byte was changed by hand."""
    manifest = sources()[name].parent / "manifest.json"
    said = json.loads(manifest.read_text()) if manifest.exists() else {}
    opens = "onOpen" not in said or said["onOpen"]["forWriting"] == "ok"
    return opens and not name.rpartition("/")[2].startswith(("corrupt-", "rollback-four-periods-literal"))


def limit_memory() -> None:
    """Limit the address space of this process."""
    resource.setrlimit(resource.RLIMIT_AS, (ROOM_BYTES, resource.RLIM_INFINITY))


def drill(of: Callable[[int], Outcome], first: int, count: int, processes: int) -> int:
    """Run the mutations of seeds and print what they show.

    Returns:
        0; 1 when something that must hold does not.
    """
    codes: Counter[tuple[str, int]] = Counter()
    began, bad, judged, peak = time.monotonic(), 0, 0, 0
    with ProcessPoolExecutor(processes, initializer=limit_memory) as pool:
        for one in pool.map(of, range(first, first + count), chunksize=_CHUNK):
            codes.update(one.codes)
            peak = max(peak, one.peak_kib)
            bad += bool(one.misses)
            judged += bool(one.to_judge)
            for word, lines in (("MISS", one.misses), ("JUDGE", one.to_judge)):
                for line in lines:
                    print(f"{word} {one.seed} ({one.what}) {line}", flush=True)
            if (one.seed - first + 1) % 500 == 0:
                passed = time.monotonic() - began
                print(f"{one.seed - first + 1} mutations, {bad} with misses, {passed:.0f} s", flush=True)
    print(f"{count} mutations: {bad} with misses, {judged} to judge, {peak >> 10} MiB at most")
    for (name, code), times in sorted(codes.items()):
        print(f"{name:16} {code:3} {times:7}")
    return 1 if bad else 0


def main(words: list[str], of: Callable[[int], Outcome] = of_seed) -> int:
    """Run the command line."""
    first, count, processes = (*map(int, words), 2)[:3]
    return drill(of, first, count, processes)


if __name__ == "__main__":
    if sys.argv[1:] == ["sound"]:
        faults = faults_of_sound()
        print(*faults, f"{len(faults)} faults", sep="\n")
        sys.exit(1 if faults else 0)
    sys.exit(main(sys.argv[1:], partial(of_seed)))
