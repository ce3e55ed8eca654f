"""Groups of two data nodes and an arbiter, JVMs and jetool, under kills and partitions: nothing acknowledged is lost.

``python -m tests.rep.arbiter.beside_je MIXTURE ROUNDS SEED [DIRECTORY] --je 17=CLASSES --je 26=CLASSES``, as root,
with iproute2 and Java. A mixture is three words, for two data nodes and the arbiter, such as ``je17,ours26,any``.
``jeN`` is a JVM with these classes; ``ours17`` and ``ours26`` are jetool, with this version of a new log. The arbiter
is ``jeN``, ``ours``, or ``any``: at each start one of them, in the same directory.

In each round nodes are killed, stopped or cut off. Then all is mended, and within ``HEALED_S`` one data node must lead,
commits must go on, and both data nodes must hold every key whose commit returned. One line for each round; 1 after the
first that fails.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Final

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.storage.disk import DiskStorage
from tests.rep.group_drill import DATABASE, BrokenPromiseError, Outcomes, Writer
from tests.rep.namespaces import Namespaces
from tests.support.harness import environment

HEALED_S: Final = 120.0
_JAVA: Final = Path(__file__).with_name("JeMember.java")
_GROUP: Final = "STORE"
_PORT: Final = 5001
_DATA: Final = (0, 1)
_ARBITER: Final = 2


class Member:
    """One of the three, as a process in its namespace.

    Arguments:
        kind: a word of the mixture.
        classes: by log version, where compiled classes and those of JE are.
    """

    def __init__(self, spaces: Namespaces, number: int, kind: str, home: Path, classes: dict[str, str]) -> None:
        self.number = number
        self.name = f"n{number}"
        self.kind = kind
        self.home = home
        self.ran: str | None = None
        self.popen: subprocess.Popen[bytes] | None = None
        self.outcomes = Outcomes()
        self._spaces = spaces
        self._classes = classes
        self._out = home.with_suffix(".out")
        self._writer: Writer | None = None
        self._going = False

    @property
    def is_data(self) -> bool:
        return self.number != _ARBITER

    def start(self, chance: random.Random) -> None:
        jvms = sorted(self._classes)
        self.ran = chance.choice(["ours", *(f"je{version}" for version in jvms)]) if self.kind == "any" else self.kind
        if self.kind == "any" and (self.home / "00000000.adb").exists():
            # JE 18.3 does not read what later ones wrote.
            version = (self.home / "00000000.adb").read_bytes()[3]
            self.ran = "je26" if self.ran == "je17" and version > 2 else self.ran
        others = ",".join(f"{self._spaces.address(n)}:{_PORT}" for n in range(3) if n != self.number)
        own = f"{self._spaces.address(self.number)}:{_PORT}"
        first = self.number == 0 and not self.home.exists()
        if self.ran.startswith("je"):
            role = "data" if self.is_data else "arbiter"
            words = ["java", "-Xmx100m", "-cp", self._classes[self.ran[2:]], "JeMember", role, _GROUP, self.name, own]
            words += [own if first else others, str(self.home)]
        else:
            words = [sys.executable, "-m", "jetool", "node", "run", str(self.home), "--node", self.name]
            words += ["--listen", own, "--join", others, "--plain", "--format", "ndjson"]
            if self.is_data:
                words += ["--node-type", "electable", "--priority", "1", "--log-version", self.ran[4:]]
                words += ["--lead", "--group", _GROUP] if first else []
            else:
                words += ["--node-type", "arbiter"]
        with self._out.open("ab") as out:
            out.write(b"start\n")
            out.flush()
            command = self._spaces.command(self.number, words)
            self.popen = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, env=environment()
            )
        self.tell(going=self._going)

    def tell(self, *, going: bool) -> None:
        """Let it write, or not."""
        self._going = going
        if not self.is_data:
            return
        if self.ran is not None and self.ran.startswith("je"):
            if self.popen is not None:
                stdin: IO[bytes] | None = self.popen.stdin
                assert stdin is not None
                stdin.write(b"go\n" if going else b"pause\n")
                stdin.flush()
            return
        if self._writer is None:
            place = self._spaces.address(self.number), _PORT
            self._writer = Writer(self._spaces.entrance(self.number), place, self.name, self.outcomes)
            self._writer.start()
        if going:
            self._writer.resume()
        else:
            self._writer.pause()

    def kill(self) -> None:
        if self.popen is not None:
            self.popen.kill()
            self.popen.wait()
            assert self.popen.stdin is not None
            self.popen.stdin.close()
        self.popen = None

    def signal(self, number: int) -> None:
        if self.popen is not None:
            self.popen.send_signal(number)

    def role(self) -> str | None:
        """What it said last since its start."""
        found = None
        for line in self._out.read_bytes().split(b"\n")[:-1]:
            if line == b"start":
                found = None
            elif line.startswith(b"state "):
                found = line[6:].decode().lower()
            elif line.startswith(b'{"rec":"event"'):
                found = json.loads(line)["role"]
        return found

    def check_alive(self) -> None:
        if self.popen is not None and self.popen.poll() is not None:
            raise BrokenPromiseError(f"{self.name} ({self.ran}) has ended: {self._out.read_text()[-2000:]}")

    def acknowledged(self) -> set[bytes]:
        lines = self._out.read_bytes().split(b"\n")[:-1] if self._out.exists() else []
        return {line[6:] for line in lines if line.startswith(b"acked ")} | set(self.outcomes.acknowledged)

    def records(self) -> set[bytes] | None:
        """Its keys as they are on the disk; None while they cannot be read."""
        try:
            with Environment(DiskStorage(self.home), EnvironmentConfig(read_only=True)) as env:
                if DATABASE not in env.database_names():
                    return set()
                with env.open_database(DATABASE) as db:
                    return {key for key, _ in db.items()}
        except JetoolError:
            return None


class Trio:
    """The group."""

    def __init__(self, mixture: list[str], directory: Path, classes: dict[str, str], chance: random.Random) -> None:
        self.random = chance
        self.spaces = Namespaces(3)
        self.members = [Member(self.spaces, n, mixture[n], directory / f"n{n}", classes) for n in range(3)]
        self.kept = 0

    def start(self) -> None:
        roles: list[str] = []
        for member in self.members:
            member.start(self.random)
            roles.append("replica" if roles else "master")
            self._await(
                lambda: [one.role() for one in self.members[: len(roles)]] == roles, f"{member.name} has joined"
            )

    def close(self) -> None:
        for member in self.members:
            member.kill()
        self.spaces.close()

    def acknowledged(self) -> set[bytes]:
        return set[bytes]().union(*(member.acknowledged() for member in self.members))

    def _await(self, condition: object, what: str) -> float:
        assert callable(condition)
        begun = time.monotonic()
        while not condition():
            for member in self.members:
                member.check_alive()
            if time.monotonic() - begun > HEALED_S:
                raise BrokenPromiseError(f"not within {HEALED_S:.0f} s: {what}: {[one.role() for one in self.members]}")
            time.sleep(0.1)
        return time.monotonic() - begun

    def master(self) -> int | None:
        return next(
            (n for n in _DATA if self.members[n].popen is not None and self.members[n].role() == "master"), None
        )

    def round(self, kinds: list[str]) -> str:
        for n in _DATA:
            self.members[n].tell(going=True)
        time.sleep(self.random.uniform(0.5, 2))
        for kind in kinds:
            self._disturb(kind)
            time.sleep(self.random.uniform(1, 7))
            if self.random.random() < 0.3:
                self.spaces.mend()
        before = len(self.acknowledged())
        self.spaces.mend()
        for member in self.members:
            member.signal(signal.SIGCONT)
            if member.popen is None:
                member.start(self.random)
        healed = self._await(lambda: self._settled(before), "one master, its replica and its arbiter, and more commits")
        for n in _DATA:
            self.members[n].tell(going=False)
        acknowledged = self.acknowledged()
        self._await(lambda: self._agree(acknowledged), "both data nodes hold the same, and what was acknowledged")
        return f"healed in {healed:.1f} s, acknowledged {len(acknowledged)}, master {self.master()}, arbiter " + (
            f"{self.members[_ARBITER].ran}"
        )

    def _settled(self, before: int) -> bool:
        roles = sorted(str(self.members[n].role()) for n in _DATA)
        at_work = len(self.acknowledged()) > before + 5
        return roles == ["master", "replica"] and self.members[_ARBITER].role() == "replica" and at_work

    def _agree(self, acknowledged: set[bytes]) -> bool:
        one, two = (self.members[n].records() for n in _DATA)
        return one is not None and one == two and acknowledged <= one

    def _disturb(self, kind: str) -> None:
        master = self.master()
        first = master if master is not None else self.random.choice(_DATA)
        second = 1 - first
        killed = {"master": [first], "replica": [second], "arbiter": [_ARBITER], "both": [first, second],
                  "all": [0, 1, 2], "pair": [first, _ARBITER]}  # fmt: skip
        if kind in killed:
            for n in killed[kind]:
                self.members[n].kill()
        elif kind == "start":
            for member in self.members:
                if member.popen is None:
                    member.start(self.random)
        elif kind == "hang":
            self.members[self.random.choice((first, second, _ARBITER))].signal(signal.SIGSTOP)
        elif kind == "apart":
            self.spaces.split([first], [second])
        else:
            alone = {"cut-master": first, "cut-replica": second, "cut-arbiter": _ARBITER}[kind]
            self.spaces.split([alone], [n for n in range(3) if n != alone])


KINDS: Final = ("master", "replica", "arbiter", "both", "all", "pair", "start", "start", "start", "hang", "apart",
                "cut-master", "cut-replica", "cut-arbiter")  # fmt: skip


def compiled(classes: dict[str, str], directory: Path) -> dict[str, str]:
    """Class paths with our program in them."""
    for version, path in classes.items():
        made = directory / f"classes{version}"
        subprocess.run(["javac", "-cp", path, "-d", str(made), str(_JAVA)], check=True)
        classes[version] = f"{path}:{made}"
    return classes


def main(words: list[str]) -> int:
    """Print the figures; 1 after the first round that fails, whose directory stays."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mixture")
    parser.add_argument("rounds", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("directory", nargs="?")
    parser.add_argument("--je", action="append", default=[], metavar="VERSION=CLASSES")
    given = parser.parse_args(words)
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    directory = Path(given.directory or tempfile.mkdtemp(prefix="arbiter-"))
    directory.mkdir(exist_ok=True)
    classes = compiled(dict(pair.split("=", 1) for pair in given.je), directory)
    chance = random.Random(given.seed)
    trio = Trio(given.mixture.split(","), directory, classes, chance)
    begun = time.monotonic()
    try:
        trio.start()
        for number in range(given.rounds):
            kinds = [chance.choice(KINDS) for _ in range(chance.randrange(1, 5))]
            said = trio.round(kinds)
            print(f"{time.monotonic() - begun:6.0f} s  round {number} {'+'.join(kinds)}: {said}", flush=True)
    except BrokenPromiseError as error:
        print(f"BROKEN, see {directory}: {error}", flush=True)
        return 1
    finally:
        trio.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
