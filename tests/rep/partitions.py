"""Three ``jetool node run`` in network namespaces, under partitions, one-way links, slow peers, stops and kills.

Run as root, with iproute2: ``python -m tests.rep.partitions ROUNDS SEED [DIRECTORY]``. Each node has a namespace, and a
cable to a bridge. A directed link is cut by a wrong hardware address of the neighbour: packets leave, and never arrive.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from engine.errors import JetoolError
from engine.rep import remote
from engine.rep.client.connection import SocketNetwork
from engine.rep.records import PutRequest
from engine.rep.remote import UnknownOutcomeError
from tests.harness import environment

NODES: Final = range(1, 4)
_PORT: Final = 5001
_DB: Final = "keys"
_BRIDGE: Final = "jetoolbr"
_NOWHERE: Final = "02:00:00:00:00:99"
# A group that can reach itself again has a master and no difference after this time.
_HEALED_S: Final = 90
_PUT_S: Final = 4.0
_MOST_MEMORY_KB: Final = 400_000


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What writers were told: ``refused`` means that nothing was changed, ``unknown`` that anything may be."""

    acknowledged: frozenset[str]
    refused: frozenset[str]
    unknown: frozenset[str]

    @classmethod
    def parse(cls, lines: Sequence[str]) -> Answers:
        """Of lines ``answer key``; a key that only has a line ``asked`` is unknown."""
        keys: dict[str, str] = {}
        for line in lines:
            answer, key = line.split()
            keys[key] = answer
        return cls(
            acknowledged=frozenset(key for key, answer in keys.items() if answer == "acknowledged"),
            refused=frozenset(key for key, answer in keys.items() if answer == "refused"),
            unknown=frozenset(key for key, answer in keys.items() if answer in ("asked", "unknown")),
        )


def differences(answers: Answers, records: dict[str, frozenset[str]]) -> list[str]:
    """What the keys of the nodes, by name, have against the answers, in words."""
    wrong = []
    asked = answers.acknowledged | answers.refused | answers.unknown
    for name, keys in records.items():
        for what, found in (
            ("lost", answers.acknowledged - keys),
            ("was refused and is there", answers.refused & keys),
            ("was never asked for", keys - asked),
        ):
            if found:
                wrong.append(f"{name}: {len(found)} {what}, such as {min(found)}")
    if len(set(records.values())) > 1:
        wrong.append(f"records differ: {', '.join(f'{name} {len(keys)}' for name, keys in records.items())}")
    return wrong


def ip(*words: str | int, check: bool = True) -> None:
    """Run ``ip``."""
    subprocess.run(["ip", *map(str, words)], check=check, capture_output=True)


def space(n: int) -> str:
    """Name of a node's namespace."""
    return f"jetool{n}"


def host(n: int) -> str:
    """Address of a node."""
    return f"10.77.30.{n}"


def hardware(n: int) -> str:
    """Hardware address of a node."""
    return f"02:00:00:00:00:0{n}"


class Network:
    """Namespaces on a bridge."""

    def __init__(self) -> None:
        self.remove()
        ip("link", "add", _BRIDGE, "type", "bridge")
        ip("link", "set", _BRIDGE, "up")
        for n in NODES:
            ip("netns", "add", space(n))
            ip("link", "add", f"jev{n}", "type", "veth", "peer", "name", "eth0", "netns", space(n))
            ip("link", "set", f"jev{n}", "master", _BRIDGE, "up")
            ip("-n", space(n), "link", "set", "eth0", "address", hardware(n))
            ip("-n", space(n), "link", "set", "lo", "up")
            ip("-n", space(n), "addr", "add", f"{host(n)}/24", "dev", "eth0")
            ip("-n", space(n), "link", "set", "eth0", "up")
            # A node serves callers from loopback: those of its own namespace have to be such.
            local = ("local", host(n), "dev", "eth0", "table", "local", "scope", "host", "src", "127.0.0.1")
            ip("-n", space(n), "route", "replace", *local)
        self.heal()

    def remove(self) -> None:
        """Also what an earlier run has left."""
        for n in NODES:
            ip("netns", "del", space(n), check=False)
            ip("link", "del", f"jev{n}", check=False)
        ip("link", "del", _BRIDGE, check=False)

    def heal(self) -> None:
        """All links as they were."""
        for n in NODES:
            for other in NODES:
                if other != n:
                    self._lead(n, other, hardware(other))
            self._tc(n, "del")

    def cut(self, source: int, target: int) -> None:
        """Drop what one node sends to another, without a word to either."""
        self._lead(source, target, _NOWHERE)

    def slow(self, n: int) -> None:
        """What a node sends goes at 64 kbit/s, some of it lost."""
        self._tc(n, "add", "tbf", "rate", "64kbit", "burst", "4k", "latency", "2s")

    def _lead(self, source: int, target: int, to: str) -> None:
        way = (host(target), "lladdr", to, "dev", "eth0", "nud", "permanent")
        ip("-n", space(source), "neigh", "replace", *way)

    def _tc(self, n: int, verb: str, *words: str) -> None:
        command = ["tc", "-n", space(n), "qdisc", verb, "dev", "eth0", "root", *words]
        subprocess.run(command, check=verb == "add", capture_output=True)


class Node:
    """A node, started as often as it is killed."""

    def __init__(self, n: int, directory: Path) -> None:
        self.n = n
        self.env = directory / f"n{n}"
        self._starts = 0
        self.popen: subprocess.Popen[bytes]
        self.start(first=n == 1)

    def start(self, *, first: bool = False) -> None:
        """Start it; the first time of the first node with the group."""
        self._starts += 1
        words = ["--node", f"n{self.n}", "--listen", f"{host(self.n)}:{_PORT}", "--plain", "--type", "electable"]
        others = ",".join(f"{host(other)}:{_PORT}" for other in NODES if other != self.n)
        words += ["--priority", "1", "--group", "PARTITIONS", "--join", others, "--format", "ndjson"]
        command = [*_within(self.n), "jetool", "node", "run", str(self.env), *words, *(["--master"] if first else [])]
        with self._printed("out").open("wb") as out, self._printed("err").open("wb") as err:
            self.popen = subprocess.Popen(command, stdout=out, stderr=err, env=environment())

    def kill(self) -> None:
        """As by the OOM killer."""
        self.popen.kill()
        self.popen.wait()

    @property
    def role(self) -> str:
        """The last that it has told; empty before."""
        printed = self._printed("out").read_bytes()
        lines = printed[: printed.rfind(b"\n") + 1].splitlines()
        events = [event for event in map(json.loads, lines) if "role" in event]
        return str(events[-1]["role"]) if events and self.popen.poll() is None else ""

    def problems(self) -> list[str]:
        """Whether it has ended by itself, printed a traceback, or grown."""
        code, errors = self.popen.poll(), self._printed("err").read_text(errors="replace")
        wrong = [f"n{self.n} ended by itself with {code}: {errors[-2000:]}"] if code is not None else []
        for path in sorted(self.env.parent.glob(f"n{self.n}.*.err")):
            text = path.read_text(errors="replace")
            if "Traceback" in text or "internal error" in text:
                wrong.append(f"{path}: {text[-3000:]}")
        if self.memory_kb > _MOST_MEMORY_KB:
            wrong.append(f"n{self.n} has used {self.memory_kb} kB")
        return wrong

    @property
    def memory_kb(self) -> int:
        """The most that the process has used; 0 when it has ended."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self.popen.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1])
        return 0

    def _printed(self, name: str) -> Path:
        return self.env.parent / f"n{self.n}.{self._starts:03}.{name}"


def _within(n: int) -> list[str]:
    return ["ip", "netns", "exec", space(n), sys.executable, "-m"]


def jetool(*words: str | Path | int, within: int | None = None) -> tuple[int, str]:
    """Exit code and output of a command, in a node's namespace or outside of all."""
    start = _within(within) if within is not None else [sys.executable, "-m"]
    command = [*start, "jetool", *map(str, words)]
    done = subprocess.run(command, capture_output=True, env=environment(), text=True, check=False)
    return done.returncode, done.stdout if done.returncode == 0 else done.stdout + done.stderr


def write(n: int, name: str) -> None:
    """A writer: keys to a node of its own namespace, and each answer to standard output, until it is terminated."""
    network, count = SocketNetwork(), 0
    while True:
        count += 1
        key = f"{name}-n{n}-{count:06}"
        print("asked", key, flush=True)
        request = PutRequest(_DB, key.encode(), b"x" * 100, overwrite=False, create=True)
        try:
            remote.put_record(network, (host(n), _PORT), request, _PUT_S)
        except UnknownOutcomeError:
            print("unknown", key, flush=True)
        except JetoolError as error:
            # Only a refusal (3, or 4) promises that nothing was changed.
            print("refused" if error.exit_code in (3, 4) else "unknown", key, flush=True)
            time.sleep(0.2)
        else:
            print("acknowledged", key, flush=True)
            time.sleep(0.01)


@dataclass(kw_only=True)
class Group:
    """Three nodes on a network, and the files of answers to their writers."""

    directory: Path
    network: Network
    nodes: dict[int, Node]
    chance: random.Random
    deeds: list[str] = field(default_factory=list)
    stopped: set[int] = field(default_factory=set)

    def masters(self) -> list[int]:
        """The nodes that say they are."""
        return [n for n, node in self.nodes.items() if node.role == "master"]

    def trouble(self) -> None:
        """One of the troubles, at the master or another node."""
        masters = self.masters()
        n = self.chance.choice(masters if masters and self.chance.random() < 0.6 else list(NODES))
        other = self.chance.choice([one for one in NODES if one != n])
        kind = self.chance.choice(("isolate", "one-way", "deaf", "mute", "slow", "stop", "kill", "heal"))
        self.deeds.append(f"{kind} n{n}" + (f" to n{other}" if kind == "one-way" else ""))
        rest = [one for one in NODES if one != n]
        if kind in ("isolate", "mute"):
            for one in rest:
                self.network.cut(n, one)
        if kind in ("isolate", "deaf"):
            for one in rest:
                self.network.cut(one, n)
        if kind == "one-way":
            self.network.cut(n, other)
        elif kind == "slow":
            self.network.heal()
            self.network.slow(n)
        elif kind == "stop":
            self.nodes[n].popen.send_signal(signal.SIGSTOP)
            self.stopped.add(n)
        elif kind == "kill":
            self.stopped.discard(n)
            self.nodes[n].kill()
            self.nodes[n].start()
        elif kind == "heal":
            self.heal()

    def heal(self) -> None:
        """All links, all processes."""
        self.network.heal()
        for n in self.stopped:
            self.nodes[n].popen.send_signal(signal.SIGCONT)
        self.stopped.clear()

    def answers(self) -> Answers:
        """Of all rounds."""
        texts = [path.read_text() for path in sorted(self.directory.glob("writer.*"))]
        return Answers.parse([line for text in texts for line in text[: text.rfind("\n") + 1].splitlines()])

    def problems(self) -> list[str]:
        """What is wrong with the nodes themselves."""
        return [problem for node in self.nodes.values() for problem in node.problems()]

    def round(self, number: int) -> list[str]:
        """Writers under troubles; healing; what is wrong after it."""
        name, writers = f"r{number:03}", []
        self.deeds.clear()
        for n in NODES:
            with (self.directory / f"writer.{name}.{n}").open("wb") as out:
                words = [*_within(n), "tests.rep.partitions", "write", str(n), name]
                writers.append(subprocess.Popen(words, stdout=out, env=environment()))
        try:
            for _ in range(self.chance.randint(3, 5)):
                time.sleep(self.chance.uniform(1.0, 4.0))
                self.trouble()
            # Now and then long enough for the others to give a silent master up.
            time.sleep(self.chance.choice((self.chance.uniform(1.0, 4.0), 36.0)))
            self.heal()
        finally:
            for writer in writers:
                writer.kill()
                writer.wait()
        return self.settled(f"{name}-last")

    def settled(self, key: str) -> list[str]:
        """What is still wrong when the time for that is over: masters, streams, records."""
        last = self.directory / f"writer.{key}"
        last.write_text(f"acknowledged {key}\n")
        deadline, vlsn, seen = time.monotonic() + _HEALED_S, 0, "no master"
        while not vlsn:
            if time.monotonic() > deadline:
                last.unlink()
                return [f"no write within {_HEALED_S} s after healing: {seen}", *self.problems()]
            time.sleep(0.5)
            masters = self.masters()
            if len(masters) == 1:
                words = ("--db", _DB, "--create", "--timeout", "10", "--json")
                code, seen = jetool("node", "put", f"{host(masters[0])}:{_PORT}", key, "x", *words, within=masters[0])
                vlsn = json.loads(seen)["vlsn"] if code == 0 else 0
        wrong = []
        for n in NODES:
            left = max(1.0, deadline - time.monotonic())
            words = ("--db", _DB, "--vlsn", str(vlsn), "--timeout", f"{left:.1f}")
            code, seen = jetool("node", "get", f"{host(n)}:{_PORT}", key, *words, within=n)
            if code:
                wrong.append(f"n{n} has not followed to VLSN {vlsn}: {code}, {seen}")
        if len(self.masters()) != 1:
            wrong.append(f"masters: {self.masters()}")
        for n in (2, 3):
            code, seen = jetool("diff", self.nodes[1].env, self.nodes[n].env)
            while code and time.monotonic() < deadline:
                # The two are not read in the same moment, and a node goes on.
                time.sleep(1)
                code, seen = jetool("diff", self.nodes[1].env, self.nodes[n].env)
            if code:
                wrong.append(f"diff of n1 and n{n}: {code}, {seen[-1500:]}")
        return wrong + differences(self.answers(), {f"n{n}": self._keys(n) for n in NODES}) + self.problems()

    def _keys(self, n: int) -> frozenset[str]:
        words = ("--db", _DB, "--format", "ndjson", "--key-format", "utf8")
        code, seen = jetool("scan", self.nodes[n].env, *words)
        if code:
            raise AssertionError(f"scan of n{n}: {code}, {seen[-1500:]}")
        rows: list[dict[str, Any]] = [json.loads(line) for line in seen.splitlines()]
        return frozenset(str(row["key"]) for row in rows if "key" in row)


def main(rounds: int, seed: int, directory: Path) -> int:
    """Rounds on one group; 1 and the evidence in the directory when something is wrong."""
    # Also after SIGTERM no node or namespace stays.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    network = Network()
    nodes: dict[int, Node] = {}
    say: Callable[[str], int] = sys.stdout.write
    try:
        for n in NODES:
            nodes[n] = Node(n, directory)
        group = Group(directory=directory, network=network, nodes=nodes, chance=random.Random(seed))
        wrong = group.settled("r000-last")
        for number in range(1, rounds + 1):
            if wrong:
                break
            begun = time.monotonic()
            wrong = group.round(number)
            answers, took = group.answers(), time.monotonic() - begun
            told = (len(answers.acknowledged), len(answers.refused), len(answers.unknown))
            memory = max(node.memory_kb for node in nodes.values())
            say(f"round {number}: {', '.join(group.deeds)}\n  {told[0]} acknowledged, {told[1]} refused, ")
            say(f"{told[2]} unknown so far; {memory} kB at most; {took:.0f} s\n")
            sys.stdout.flush()
        for line in wrong:
            say(f"WRONG {line}\n")
        say(f"evidence: {directory}\n")
        return 1 if wrong else 0
    finally:
        for node in nodes.values():
            node.kill()
        network.remove()


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(int(sys.argv[2]), sys.argv[3])
    elif os.geteuid() != 0:
        sys.exit("network namespaces need root")
    else:
        where = Path(sys.argv[3]) if len(sys.argv) > 3 else Path(tempfile.mkdtemp(prefix="partitions."))
        where.mkdir(parents=True, exist_ok=True)
        sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), where))
