"""Network namespaces with a bridge between them, whose links are cut one way, and slowed (root and iproute2)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

_CLONE_NEWNET: Final = 0x40000000
_NOWHERE: Final = "02:00:00:00:ff:ff"
# 1 KB/s, and three seconds of it wait; what comes on top of it is lost.
_SLOW: Final = ("rate", "8kbit", "burst", "1600", "limit", "4600")


class Namespaces:
    """One namespace for each node, and one for the bridge.

    A node knows the hardware address of each other one by a fixed entry, so that nothing is asked on the bridge. An
    entry that leads nowhere swallows what this node sends that one, and nothing else.

    Arguments:
        size: how many nodes.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._prefix = f"jp{os.getpid()}"
        self._hub = f"{self._prefix}-hub"
        self._slowed: set[int] = set()
        try:
            self._make()
        except BaseException:
            self.close()
            raise

    def _make(self) -> None:
        _ip("netns", "add", self._hub)
        _ip("-n", self._hub, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._hub, "link", "set", "bridge", "up")
        for n in range(self.size):
            space = self._space(n)
            _ip("netns", "add", space)
            _ip("-n", self._hub, "link", "add", f"port{n}", "type", "veth", "peer", "name", "eth", "netns", space)
            _ip("-n", self._hub, "link", "set", f"port{n}", "master", "bridge", "up")
            _ip("-n", space, "link", "set", "eth", "address", _hardware(n))
            _ip("-n", space, "address", "add", f"{self.address(n)}/24", "dev", "eth")
            _ip("-n", space, "link", "set", "eth", "up")
            _ip("-n", space, "link", "set", "lo", "up")
            # Without TLS a node serves puts over loopback only: calls within a namespace come from there.
            _ip("-n", space, "route", "replace", "local", self.address(n), "dev", "eth", "table", "local",
                "scope", "host", "src", "127.0.0.1")  # fmt: skip
        self.mend()

    def address(self, n: int) -> str:
        return f"10.77.0.{n + 1}"

    def command(self, n: int, words: Sequence[str]) -> list[str]:
        """The command line that runs within the namespace of a node."""
        return ["ip", "netns", "exec", self._space(n), *words]

    def entrance(self, n: int) -> Callable[[], None]:
        """A function that moves the calling thread into the namespace of a node."""
        path = Path("/run/netns") / self._space(n)

        def enter() -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            with path.open("rb") as file:
                if libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns", str(path))

        return enter

    def swallow(self, senders: Iterable[int], receivers: Iterable[int]) -> None:
        """From now on nothing that one of ``senders`` sends one of ``receivers`` arrives; the way back stays open."""
        receivers = list(receivers)
        for sender in senders:
            for receiver in receivers:
                self._neighbour(sender, receiver, _NOWHERE)

    def split(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Cut both directions."""
        some, others = list(some), list(others)
        self.swallow(some, others)
        self.swallow(others, some)

    def slow(self, n: int) -> None:
        """1 KB/s in each direction between a node and all others."""
        if n not in self._slowed:
            for space, device in self._ends(n):
                _run("tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf", *_SLOW)
            self._slowed.add(n)

    def mend(self) -> None:
        """All nodes reach all others, at full speed."""
        for n in self._slowed:
            for space, device in self._ends(n):
                _run("tc", "-n", space, "qdisc", "del", "dev", device, "root")
        self._slowed.clear()
        for sender in range(self.size):
            for receiver in range(self.size):
                if sender != receiver:
                    self._neighbour(sender, receiver, _hardware(receiver))

    def close(self) -> None:
        """Remove all namespaces, and with them their links."""
        for space in (*map(self._space, range(self.size)), self._hub):
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", space)

    def _space(self, n: int) -> str:
        return f"{self._prefix}-{n}"

    def _ends(self, n: int) -> tuple[tuple[str, str], ...]:
        return (self._space(n), "eth"), (self._hub, f"port{n}")

    def _neighbour(self, sender: int, receiver: int, hardware: str) -> None:
        _ip("-n", self._space(sender), "neigh", "replace", self.address(receiver), "lladdr", hardware,
            "nud", "permanent", "dev", "eth")  # fmt: skip


def _hardware(n: int) -> str:
    return f"02:00:00:00:00:{n + 1:02x}"


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
