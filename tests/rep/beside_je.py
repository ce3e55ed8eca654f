"""Groups of three members, JVMs and jetool, under kills and partitions: nothing acknowledged is lost, logs stay alike.

``python -m tests.rep.beside_je MIXTURE ROUNDS SEED [DIRECTORY] --je 17=CLASSES --je 26=CLASSES``, as root, with
iproute2 and Java. A mixture is three words, one for each member:

* ``jeN``: a data node, a JVM with these classes
* ``ours17``, ``ours26``: a data node, jetool, with this version of a new log
* ``any17``, ``any26``: a data node, at each start one of these two, in the same directory
* ``arbiter-jeN``, ``arbiter-ours``, ``arbiter-any``: the arbiter, as the last of the three; ``any``: at each start one
  of them, in the same directory

Such as ``je26,je26,ours26`` or ``je17,ours26,arbiter-any``. In a group of JVMs and jetool the master is a JVM in one
round and jetool in the next. In each round nodes are killed, stopped or cut off. Then all is mended, and within
``HEALED_S`` one data node must lead, commits must go on, and all data nodes must hold every key whose commit returned
and no key whose put was refused. After the last round the nodes end; ``jetool diff`` must find no difference between
any two data nodes, and ``jetool verify --full`` no damage. The drill prints one line for each round. It ends with 1
after the first broken promise.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.storage.disk import DiskStorage
from tests.rep.group_drill import DATABASE, BrokenPromiseError, Outcomes, Writer
from tests.rep.namespaces import Namespaces
from tests.support.groups.streams import visible_stream
from tests.support.harness import environment, run

HEALED_S: Final = 120.0
_JAVA: Final = Path(__file__).with_name("JeMember.java")
_GROUP: Final = "STORE"
_PORT: Final = 5001
_SIZE: Final = 3
# A master at rest writes one empty commit with the last DTVLSN.
_REST_S: Final = 12.0
_TRANSFER_S: Final = "10"


class Member:
    """One of the three, as a process in its namespace.

    Arguments:
        word: its word of the mixture.
        classes: by log version, where compiled classes and those of JE are.
    """

    def __init__(self, spaces: Namespaces, number: int, word: str, home: Path, classes: dict[str, str]) -> None:
        self.number = number
        self.name = f"n{number}"
        self.is_data = not word.startswith("arbiter-")
        self.kind = word.removeprefix("arbiter-")
        self.home = home
        self.ran: str | None = None
        self.popen: subprocess.Popen[bytes] | None = None
        self.outcomes = Outcomes()
        self._spaces = spaces
        self._classes = classes
        self._out = home.with_suffix(".out")
        self._writer: Writer | None = None
        self._going = False
        self._read_to = 0
        self._role: str | None = None
        self._acknowledged: set[bytes] = set()

    @property
    def is_jvm(self) -> bool:
        """Whether the process that was started last is one."""
        return self.ran is not None and self.ran.startswith("je")

    def start(self, chance: random.Random) -> None:
        self.ran = self._choose(chance)
        others = ",".join(f"{self._spaces.address(n)}:{_PORT}" for n in range(_SIZE) if n != self.number)
        own = f"{self._spaces.address(self.number)}:{_PORT}"
        first = self.number == 0 and not self.home.exists()
        if self.is_jvm:
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

    def _choose(self, chance: random.Random) -> str:
        if not self.kind.startswith("any"):
            return self.kind
        if self.is_data:
            return chance.choice(["ours", "je"]) + self.kind.removeprefix("any")
        found = chance.choice(["ours", *(f"je{version}" for version in sorted(self._classes))])
        if (self.home / "00000000.adb").exists():
            # JE 18.3 does not read what later ones wrote.
            version = (self.home / "00000000.adb").read_bytes()[3]
            found = "je26" if found == "je17" and version > 2 else found
        return found

    def tell(self, *, going: bool) -> None:
        """Let it write, or not."""
        self._going = going
        if not self.is_data:
            return
        if self.is_jvm:
            if self._writer is not None:
                self._writer.pause()
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

    def end(self) -> None:
        """Close it as an operator does: SIGTERM, or for a JVM the end of its standard input."""
        assert self.popen is not None
        assert self.popen.stdin is not None
        self.popen.stdin.close()
        if not self.is_jvm:
            self.popen.terminate()
        try:
            code = self.popen.wait(HEALED_S)
        except subprocess.TimeoutExpired:
            raise BrokenPromiseError(f"{self.name} does not end") from None
        if code != 0:
            raise BrokenPromiseError(f"{self.name} ends with {code}: {self._out.read_text()[-2000:]}")
        self.popen = None

    def role(self) -> str | None:
        """The role that it printed last since its start."""
        self._read()
        return self._role

    def _read(self) -> None:
        """Read the lines that it has printed since the last call."""
        if not self._out.exists():
            return
        with self._out.open("rb") as out:
            out.seek(self._read_to)
            printed = out.read()
        whole = printed[: printed.rfind(b"\n") + 1]
        self._read_to += len(whole)
        for line in whole.splitlines():
            if line == b"start":
                self._role = None
            elif line.startswith(b"state "):
                self._role = line[6:].decode().lower()
            elif line.startswith(b"acked "):
                self._acknowledged.add(line[6:])
            elif line.startswith(b'{"rec":"event"'):
                self._role = json.loads(line)["role"]

    def check_alive(self) -> None:
        if self.popen is not None and self.popen.poll() is not None:
            raise BrokenPromiseError(f"{self.name} ({self.ran}) has ended: {self._out.read_text()[-2000:]}")

    def acknowledged(self) -> set[bytes]:
        self._read()
        return self._acknowledged | set(self.outcomes.acknowledged)

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

    def __init__(self, mixture: Sequence[str], directory: Path, classes: dict[str, str], chance: random.Random) -> None:
        self.random = chance
        self.spaces = Namespaces(_SIZE)
        self.members = [Member(self.spaces, n, word, directory / f"n{n}", classes) for n, word in enumerate(mixture)]
        self.data = [member for member in self.members if member.is_data]
        self.masters: Counter[str] = Counter()

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

    def _await(self, condition: Callable[[], bool], what: str) -> float:
        """Seconds until the condition holds."""
        begun = time.monotonic()
        while not condition():
            for member in self.members:
                member.check_alive()
            if time.monotonic() - begun > HEALED_S:
                raise BrokenPromiseError(f"not within {HEALED_S:.0f} s: {what}: {[one.role() for one in self.members]}")
            time.sleep(0.1)
        return time.monotonic() - begun

    def master(self) -> Member | None:
        return next((one for one in self.data if one.popen is not None and one.role() == "master"), None)

    def round(self, number: int, kinds: Sequence[str]) -> str:
        """Disturb the group by each kind, mend it, and check the promises; the figures in words."""
        self._hand_over(is_jvm=number % 2 == 0)
        led = self.master()
        self.masters["none" if led is None else "jvm" if led.is_jvm else "jetool"] += 1
        for member in self.data:
            member.tell(going=True)
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
        healed = self._await(lambda: self._settled(before), "one master, all others follow it, and more commits")
        for member in self.data:
            member.tell(going=False)
        acknowledged = self.acknowledged()
        self._await(lambda: self._agree(acknowledged), "all data nodes hold the same, and what was acknowledged")
        led_now = self.master()
        ran = [f"{one.name} {one.ran}" for one in (led, led_now) if one is not None]
        return f"healed in {healed:.1f} s, acknowledged {len(acknowledged)}, master {' then '.join(ran)}, " + (
            f"rounds by master {dict(self.masters)}"
        )

    def _hand_over(self, *, is_jvm: bool) -> None:
        """Make a data node of this kind the master, if there is one and the group has a master now."""
        master = self.master()
        others = [one for one in self.data if one.is_jvm == is_jvm]
        if master is None or master.is_jvm == is_jvm or not others:
            return
        address = f"{self.spaces.address(master.number)}:{_PORT}"
        words = [
            "node",
            "transfer-master",
            address,
            "--to-node",
            self.random.choice(others).name,
            "--timeout",
            _TRANSFER_S,
            "--yes",
        ]
        command = self.spaces.command(master.number, [sys.executable, "-m", "jetool", *words])
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BrokenPromiseError(f"{' '.join(words)}: {done.stdout}{done.stderr}")
        self._await(lambda: self._roles_are_settled() and self.master() in others, f"the master after {words}")

    def _roles_are_settled(self) -> bool:
        roles = sorted(str(one.role()) for one in self.data)
        arbiters = [one.role() for one in self.members if not one.is_data]
        return roles == ["master", *["replica"] * (len(self.data) - 1)] and set(arbiters) <= {"replica"}

    def _settled(self, before: int) -> bool:
        return self._roles_are_settled() and len(self.acknowledged()) > before + 5

    def _agree(self, acknowledged: set[bytes]) -> bool:
        held = [one.records() for one in self.data]
        first = held[0]
        if first is None or any(one != first for one in held):
            return False
        refused = set[bytes]().union(*(one.outcomes.refused for one in self.data))
        if not refused.isdisjoint(first):
            raise BrokenPromiseError(f"all nodes have keys whose puts were refused: {sorted(refused & first)[:5]}")
        return acknowledged <= first

    def _disturb(self, kind: str) -> None:
        """The first is the master, the second another data node, the third the arbiter if there is one."""
        first = self.master() or self.random.choice(self.data)
        others = [one for one in self.members if one is not first]
        self.random.shuffle(others)
        second, third = sorted(others, key=lambda one: not one.is_data)
        killed = {"master": [first], "replica": [second], "third": [third], "both": [first, second],
                  "all": self.members, "pair": [first, third]}  # fmt: skip
        if kind in killed:
            for member in killed[kind]:
                member.kill()
        elif kind == "start":
            for member in self.members:
                if member.popen is None:
                    member.start(self.random)
        elif kind == "hang":
            self.random.choice(self.members).signal(signal.SIGSTOP)
        elif kind == "apart":
            self.spaces.split([first.number], [second.number])
        elif kind == "one-way":
            self.spaces.swallow(*self.random.sample([[first.number], [one.number for one in others]], 2))
        else:
            alone = {"cut-master": first, "cut-replica": second, "cut-third": third}[kind]
            self.spaces.split([alone.number], [one.number for one in self.members if one is not alone])

    def finish(self) -> str:
        """End all nodes; their environments are alike and sound. The figures in words."""
        self._await(self._roles_are_settled, "one master, all others follow it")
        acknowledged = self.acknowledged()
        time.sleep(_REST_S)
        self._await(self._have_one_end, "all data nodes have the last empty commit")
        # The master last: in logs with terms the next master would write a commit that begins its term.
        master = self.master()
        for member in sorted(self.members, key=lambda one: one is master):
            member.end()
        if not self._agree(acknowledged):
            raise BrokenPromiseError("after the end a node lacks an acknowledged key, or nodes hold other keys")
        pairs = list(itertools.combinations(self.data, 2))
        for one, two in pairs:
            result = run("diff", one.home, two.home)
            if result.code != 0:
                raise BrokenPromiseError(f"diff of {one.name} and {two.name}: {result.text}{result.err}")
        for one in self.data:
            result = run("verify", one.home, "--full")
            if result.code != 0:
                raise BrokenPromiseError(f"verify of {one.name}: {result.text}{result.err}")
        return f"acknowledged {len(acknowledged)}, lost 0, pairs without a difference {len(pairs)}"

    def _have_one_end(self) -> bool:
        try:
            return len({max(visible_stream(DiskStorage(one.home))) for one in self.data}) == 1
        except (JetoolError, AssertionError):
            return False  # A node writes at this moment; what stays so fails after HEALED_S.


KINDS: Final = ("master", "replica", "third", "both", "all", "pair", "hang", "apart", "one-way", "cut-master",
                "cut-replica", "cut-third")  # fmt: skip
# What is killed may also come back within the round.
STARTS: Final = ("start",) * 4


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
    directory = Path(given.directory or tempfile.mkdtemp(prefix="beside-je-"))
    directory.mkdir(exist_ok=True)
    classes = compiled(dict(pair.split("=", 1) for pair in given.je), directory)
    chance = random.Random(given.seed)
    trio = Trio(given.mixture.split(","), directory, classes, chance)
    begun = time.monotonic()
    try:
        trio.start()
        for number in range(given.rounds):
            kinds = [chance.choice(KINDS), *(chance.choice((*KINDS, *STARTS)) for _ in range(chance.randrange(1, 5)))]
            said = trio.round(number, kinds)
            print(f"{time.monotonic() - begun:6.0f} s  round {number} {'+'.join(kinds)}: {said}", flush=True)
        said = trio.finish()
        print(f"{time.monotonic() - begun:6.0f} s  end: {said}", flush=True)
    except BrokenPromiseError as error:
        print(f"BROKEN, see {directory}: {error}", flush=True)
        return 1
    finally:
        trio.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
