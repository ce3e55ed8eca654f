"""Groups of ``jetool node run`` in network namespaces, under partitions, one-way links, slow peers and signals.

``python -m tests.rep.group_drill ROUNDS SEED [DIRECTORY [LOG_VERSION]]``, as root, with iproute2. Each node is a
process in a network namespace of its own; a bridge connects them. The kernel's own tables make the disasters, so that
no connection ends with a sign: a wrong hardware address swallows what one node sends another (one direction of a
link), a token bucket of 1 KB/s makes a peer slow, SIGSTOP makes a node hang.

Beside each node a thread puts unique keys by the protocol of ``jetool node put``. After each round everything heals,
and within ``HEALED_S`` one node must be master, commits must go on, and all nodes must hold the same records and the
same stream: every key that was acknowledged, at the VLSN that the answer named, and no key whose put was refused.
Groups have three and five members by turns, and live for ``ROUNDS_OF_A_GROUP`` rounds.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.format.versions import WRITTEN_VERSION
from engine.log.entry import LogEntry
from engine.rep.client.connection import SocketNetwork
from engine.rep.records import PutRequest
from engine.rep.remote import UnknownOutcomeError, put_record
from engine.storage.disk import DiskStorage
from tests.rep.namespaces import Namespaces
from tests.support.groups.streams import visible_stream
from tests.support.harness import environment, run

DATABASE: Final = "t"
ROUNDS_OF_A_GROUP: Final = 5
SIZES: Final = (3, 5)
HEALED_S: Final = 120.0
# Bounds of a node at rest and under load.
MOST_THREADS: Final = 150
MOST_MIB: Final = 400
# A connection that carries nothing ends after 30 seconds: shorter disasters leave the master its role.
_SHORT_S: Final = (1.0, 8.0)
_LONG_S: Final = (34.0, 48.0)
_REST_S: Final = 10.0
_PORT: Final = 5001
_ANSWER_S: Final = 8.0
_PAUSE_S: Final = 0.02
_REFUSED_PAUSE_S: Final = 0.25


class BrokenPromiseError(AssertionError):
    """A node or the group did what it must not."""


class Receipt(NamedTuple):
    """An acknowledged put: the VLSN of its Commit, the node that committed it, and when it was asked and answered."""

    vlsn: int
    master: str
    asked: float
    answered: float


class Outcomes:
    """What became of each put; every key is put once."""

    def __init__(self) -> None:
        self.acknowledged: dict[bytes, Receipt] = {}
        self.refused: dict[bytes, str] = {}
        self.unknown: dict[bytes, str] = {}


class Writer(threading.Thread):
    """Puts unique keys through one node, from within the namespace of that node.

    Arguments:
        enter: moves the calling thread into the namespace.
        name: of the node; the keys begin with it.
    """

    def __init__(self, enter: Callable[[], None], address: tuple[str, int], name: str, outcomes: Outcomes) -> None:
        super().__init__(name=f"writes to {name}", daemon=True)
        self._enter = enter
        self._address = address
        self._node = name
        self._outcomes = outcomes
        self._count = 0
        self._going = threading.Event()
        self._rests = threading.Event()
        self.failure: BaseException | None = None

    def resume(self) -> None:
        self._rests.clear()
        self._going.set()

    def pause(self) -> None:
        """Return once no put is under way."""
        self._going.clear()
        # A put that goes on to another node may take its time twice.
        if not self._rests.wait(3 * _ANSWER_S) or self.failure is not None:
            raise BrokenPromiseError(f"a put through {self._node} hangs, or failed: {self.failure!r}")

    def run(self) -> None:
        try:
            self._enter()
            while True:
                if not self._going.is_set():
                    self._rests.set()
                    self._going.wait()
                time.sleep(_PAUSE_S if self._put() else _REFUSED_PAUSE_S)
        except BaseException as error:
            self.failure = error
            self._rests.set()
            raise

    def _put(self) -> bool:
        self._count += 1
        key = b"%s-%06d" % (self._node.encode(), self._count)
        request = PutRequest(DATABASE, key, key * (1 + self._count % 9), False, True)
        asked = time.monotonic()
        try:
            done = put_record(SocketNetwork(), self._address, request, _ANSWER_S)
        except UnknownOutcomeError as error:
            self._outcomes.unknown[key] = str(error)
            return False
        except JetoolError as error:
            self._outcomes.refused[key] = str(error)
            return False
        self._outcomes.acknowledged[key] = Receipt(done.written.vlsn, done.master[0], asked, time.monotonic())
        return True


class Node:
    """A process ``jetool node run``, in its namespace, with what it has printed."""

    def __init__(self, spaces: Namespaces, number: int, home: Path, size: int, log_version: int) -> None:
        self.number = number
        self.name = f"n{number}"
        self.home = home
        self.stopped = False
        self._spaces = spaces
        others = ",".join(f"{spaces.address(other)}:{_PORT}" for other in range(size) if other != number)
        self._words = [
            sys.executable, "-m", "jetool", "node", "run", str(home), "--node", self.name,
            "--listen", f"{spaces.address(number)}:{_PORT}", "--join", others, "--type", "electable",
            "--priority", "1", "--plain", "--format", "ndjson", "--log-version", str(log_version),
        ]  # fmt: skip
        self._out = home.with_suffix(".out")
        self._err = home.with_suffix(".err")
        self.popen: subprocess.Popen[bytes] | None = None
        self._starts = 0

    def start(self, *more: str) -> None:
        self._starts += 1
        with self._out.open("ab") as out, self._err.open("ab") as err:
            out.write(b'{"rec":"start"}\n')
            out.flush()
            command = self._spaces.command(self.number, [*self._words, *more])
            self.popen = subprocess.Popen(command, stdout=out, stderr=err, env=environment())

    def running(self) -> subprocess.Popen[bytes]:
        """Raises BrokenPromiseError: the process has ended by itself."""
        assert self.popen is not None
        if self.popen.poll() is not None:
            raise BrokenPromiseError(f"{self.name} has ended with {self.popen.returncode}: {self.complaint()}")
        return self.popen

    def complaint(self) -> str:
        return self._err.read_text(errors="replace")[-3000:]

    def kill(self) -> None:
        if self.popen is not None:
            self.popen.kill()
            self.popen.wait()
        self.popen = None
        self.stopped = False

    def hang(self) -> None:
        self.running().send_signal(signal.SIGSTOP)
        self.stopped = True

    def wake(self) -> None:
        if self.stopped:
            self.running().send_signal(signal.SIGCONT)
        self.stopped = False

    def printed(self) -> bytes:
        return self._out.read_bytes()

    def last_event(self) -> dict[str, object]:
        """The latest whole line since its start."""
        printed = self.printed()
        lines = [json.loads(line) for line in printed[: printed.rfind(b"\n") + 1].splitlines()]
        return dict(lines[-1])

    def end(self) -> int:
        """The exit code after SIGTERM."""
        process = self.running()
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(HEALED_S)
        except subprocess.TimeoutExpired:
            raise BrokenPromiseError(f"{self.name} does not end after SIGTERM") from None

    def use(self) -> tuple[int, int]:
        """Threads, and MiB that are resident."""
        status = Path(f"/proc/{self.running().pid}/status").read_text().splitlines()
        values = dict(line.split(":", 1) for line in status if ":" in line)
        return int(values["Threads"]), int(values["VmRSS"].split()[0]) >> 10


@dataclass
class Use:
    """The most that any node has taken."""

    threads: int = 0
    mib: int = 0


class Group:
    """A group of nodes, their writers, and the network between them."""

    def __init__(self, directory: Path, size: int, chance: random.Random, log_version: int) -> None:
        self.random = chance
        self.size = size
        self.spaces = Namespaces(size)
        self.outcomes = Outcomes()
        self.use = Use()
        self.nodes = [Node(self.spaces, n, directory / f"n{n}", size, log_version) for n in range(size)]
        self.writers = [
            Writer(self.spaces.entrance(n), (self.spaces.address(n), _PORT), f"n{n}", self.outcomes)
            for n in range(size)
        ]

    def start(self) -> None:
        self.nodes[0].start("--master", "--group", "STORE")
        self._await(lambda: self.master() == 0, "the first node leads")
        for node in self.nodes[1:]:
            node.start()
        for writer in self.writers:
            writer.start()
        self._await(lambda: self._roles() == ["master"] + ["replica"] * (self.size - 1), "all nodes have joined")

    def close(self) -> None:
        for node in self.nodes:
            node.kill()
        self.spaces.close()

    def _roles(self) -> list[object]:
        return [node.last_event().get("role") for node in self.nodes]

    def master(self) -> int | None:
        """A node that says it is the master; None: no node does."""
        running = [node for node in self.nodes if node.popen is not None and not node.stopped]
        return next((node.number for node in running if node.last_event().get("role") == "master"), None)

    def _await(self, condition: Callable[[], bool], what: str) -> float:
        """Seconds until the condition holds."""
        begun = time.monotonic()
        while not condition():
            for node in self.nodes:
                if node.popen is not None:
                    node.running()
            if time.monotonic() - begun > HEALED_S:
                events = [node.last_event() for node in self.nodes]
                errors = [node.complaint()[-500:] for node in self.nodes]
                errors += [*self.outcomes.refused.values()][-3:]
                raise BrokenPromiseError(f"not within {HEALED_S:.0f} s: {what}: {events}, {errors}")
            time.sleep(0.1)
        return time.monotonic() - begun

    def round(self, kinds: Sequence[str]) -> float:
        """One round; the seconds from the mending of the network to the same records everywhere."""
        for writer in self.writers:
            writer.resume()
        time.sleep(self.random.uniform(0.5, 2))
        for kind in kinds:
            self._disaster(kind)
            self._rest(self.random.uniform(*self.random.choice((_SHORT_S, _SHORT_S, _LONG_S))))
            if self.random.random() < 0.5:
                self.spaces.mend()
        begun = time.monotonic()
        self._heal()
        before = len(self.outcomes.acknowledged)
        self._await(lambda: len(self.outcomes.acknowledged) >= before + 5, "commits go on")
        for writer in self.writers:
            writer.pause()
        self._await(self._agrees, "one master, and all nodes at its VLSN")
        took = time.monotonic() - begun
        self._check()
        return took

    def _rest(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._measure()
            time.sleep(0.2)

    def terms(self) -> int:
        """How often a node has become the master."""
        return sum(node.printed().count(b'"role":"master"') for node in self.nodes)

    def _measure(self) -> None:
        for node in self.nodes:
            if node.popen is not None:
                threads, mib = node.use()
                self.use = Use(max(self.use.threads, threads), max(self.use.mib, mib))
        if self.use.threads > MOST_THREADS or self.use.mib > MOST_MIB:
            raise BrokenPromiseError(f"a node has {self.use.threads} threads and {self.use.mib} MiB")

    def _disaster(self, kind: str) -> None:
        chosen = self.random
        everyone = list(range(self.size))
        master = self.master()
        victim = master if master is not None and chosen.random() < 0.6 else chosen.choice(everyone)
        others = [n for n in everyone if n != victim]
        if kind == "isolate":
            self.spaces.split([victim], others)
        elif kind == "split":
            chosen.shuffle(everyone)
            at = chosen.randrange(1, self.size)
            self.spaces.split(everyone[:at], everyone[at:])
        elif kind == "shatter":
            for n in everyone:
                self.spaces.split([n], [other for other in everyone if other != n])
        elif kind == "mute":
            self.spaces.swallow([victim], chosen.sample(others, chosen.randrange(1, self.size)))
        elif kind == "deaf":
            self.spaces.swallow(chosen.sample(others, chosen.randrange(1, self.size)), [victim])
        elif kind == "bridge":
            # All reach one node, and that one only.
            for n in others:
                self.spaces.swallow([n], [other for other in others if other != n])
        elif kind == "slow":
            self.spaces.slow(victim)
        elif kind == "hang":
            if self.nodes[victim].popen is not None:
                self.nodes[victim].hang()
        elif kind == "kill":
            self.nodes[victim].kill()
        elif kind == "restart":
            self.nodes[victim].kill()
            self.nodes[victim].start()
        else:
            raise ValueError(kind)

    def _heal(self) -> None:
        self.spaces.mend()
        for node in self.nodes:
            if node.popen is None:
                node.start()
            node.wake()

    def _agrees(self) -> bool:
        events = [node.last_event() for node in self.nodes]
        roles = Counter(event.get("role") for event in events)
        if roles != {"master": 1, "replica": self.size - 1} or len({event.get("master") for event in events}) != 1:
            return False
        try:
            ends = {max(visible_stream(DiskStorage(node.home))) for node in self.nodes}
        except (JetoolError, AssertionError):
            return False  # A node writes at this moment; what stays so fails after HEALED_S.
        return len(ends) == 1

    def _check(self) -> None:
        self._measure()
        streams = [visible_stream(DiskStorage(node.home)) for node in self.nodes]
        records = [_records(node.home) for node in self.nodes]
        check(self.outcomes, streams, records)
        for node in self.nodes:
            if "Traceback" in node.complaint() or "internal error" in node.complaint():
                raise BrokenPromiseError(f"{node.name}: {node.complaint()}")

    def figures(self, healed_s: float) -> str:
        """What the group has done so far, in words."""
        known = self.outcomes
        return (
            f"healed in {healed_s:.1f} s; acknowledged {len(known.acknowledged)}, refused {len(known.refused)},"
            f" unknown {len(known.unknown)}, terms {self.terms()};"
            f" at most {self.use.threads} threads, {self.use.mib} MiB"
        )

    def finish(self) -> None:
        """Stop all nodes; their environments are closed, alike and sound."""
        # A master at rest writes one empty commit with the last DTVLSN (``NodeIntervals.stable_s``).
        self._rest(_REST_S)
        self._await(self._agrees, "all nodes have the last empty commit")
        # The master last: in logs with terms the next master would write a commit that begins its term.
        master = self.master()
        for node in sorted(self.nodes, key=lambda node: node.number == master):
            code = node.end()
            if code != 0:
                raise BrokenPromiseError(f"{node.name} ends with {code}: {node.complaint()}")
        for node in self.nodes[1:]:
            result = run("diff", self.nodes[0].home, node.home)
            if result.code != 0:
                raise BrokenPromiseError(f"diff of n0 and {node.name}: {result.text}{result.err}")
        for node in self.nodes:
            result = run("verify", node.home, "--full")
            if result.code != 0:
                raise BrokenPromiseError(f"verify of {node.name}: {result.text}{result.err}")


def _records(home: Path) -> dict[bytes, bytes]:
    with Environment(DiskStorage(home), EnvironmentConfig(read_only=True)) as env, env.open_database(DATABASE) as db:
        return dict(db.items())


def check(outcomes: Outcomes, streams: Sequence[dict[int, LogEntry]], records: Sequence[dict[bytes, bytes]]) -> None:
    """What must hold of nodes that have come to rest.

    Arguments:
        streams: the visible entries of each node by VLSN.
        records: the records of each node.

    Raises:
        BrokenPromiseError: a commit is lost, was committed twice or in spite of its refusal, or nodes differ.
    """
    wrong = _out_of_order(outcomes.acknowledged)
    holders = Counter(receipt.vlsn for receipt in outcomes.acknowledged.values())
    wrong += [f"{count} commits were acknowledged as VLSN {vlsn}" for vlsn, count in holders.items() if count > 1]
    for number, (stream, found) in enumerate(zip(streams, records, strict=True)):
        if found != records[0]:
            wrong.append(f"n{number} holds other records than n0")
        common = stream.keys() & streams[0].keys()
        if max(stream, default=0) != max(streams[0], default=0) or any(
            stream[vlsn].type_number != streams[0][vlsn].type_number for vlsn in common
        ):
            wrong.append(f"n{number} has another stream than n0")
        for key, receipt in outcomes.acknowledged.items():
            if key not in found:
                wrong.append(f"n{number} has lost {key!r}, {receipt}")
            elif receipt.vlsn in stream and stream[receipt.vlsn].type_name != "Commit":
                wrong.append(f"n{number} has no Commit of {key!r} at VLSN {receipt.vlsn}")
        wrong += [f"n{number} has {key!r}, whose put was refused: {outcomes.refused[key]}"
                  for key in outcomes.refused.keys() & found.keys()]  # fmt: skip
        strangers = found.keys() - outcomes.acknowledged.keys() - outcomes.refused.keys() - outcomes.unknown.keys()
        wrong += [f"n{number} has {key!r}, which was never put" for key in strangers]
    if wrong:
        raise BrokenPromiseError("; ".join(wrong[:20]))


def _out_of_order(acknowledged: dict[bytes, Receipt]) -> list[str]:
    """Commits whose VLSN is below that of a commit that was answered before they were asked for."""
    wrong: list[str] = []
    answers = sorted((receipt.answered, receipt.vlsn) for receipt in acknowledged.values())
    latest, at = 0, 0
    for key, receipt in sorted(acknowledged.items(), key=lambda item: item[1].asked):
        while at < len(answers) and answers[at][0] < receipt.asked:
            latest = max(latest, answers[at][1])
            at += 1
        if receipt.vlsn < latest:
            wrong.append(f"{key!r} has VLSN {receipt.vlsn}, after {latest} was answered")
    return wrong


KINDS: Final = ("isolate", "split", "shatter", "mute", "deaf", "bridge", "slow", "hang", "kill", "restart")


def rounds(count: int, seed: int, directory: Path, log_version: int) -> Iterable[str]:
    """Play; one line of figures for each round."""
    for first in range(0, count, ROUNDS_OF_A_GROUP):
        chance = random.Random(seed + first)
        size = SIZES[first // ROUNDS_OF_A_GROUP % len(SIZES)]
        home = directory / f"{seed + first}"
        home.mkdir()
        group = Group(home, size, chance, log_version)
        try:
            group.start()
            for number in range(first, min(first + ROUNDS_OF_A_GROUP, count)):
                kinds = [chance.choice(KINDS) for _ in range(chance.randrange(1, 4))]
                took = group.round(kinds)
                yield f"round {number} seed {seed + first} nodes {size} {'+'.join(kinds)}: {group.figures(took)}"
            group.finish()
        finally:
            with contextlib.suppress(Exception):
                group.close()


def main(words: list[str]) -> int:
    """Print the figures; 1 after the first broken promise, whose directory stays."""
    # Also after SIGTERM no node and no namespace stays.
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    count, seed = int(words[0]), int(words[1])
    directory = Path(words[2]) if len(words) > 2 else Path(tempfile.mkdtemp(prefix="partitions-"))
    directory.mkdir(exist_ok=True)
    log_version = int(words[3]) if len(words) > 3 else WRITTEN_VERSION
    begun = time.monotonic()
    try:
        for line in rounds(count, seed, directory, log_version):
            print(f"{time.monotonic() - begun:6.0f} s  {line}", flush=True)
    except BrokenPromiseError as error:
        print(f"BROKEN, see {directory}: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
