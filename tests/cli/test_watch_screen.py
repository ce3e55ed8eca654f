"""The screen of ``jetool watch`` in a terminal, its table at any width, and its exporter over HTTP."""

from __future__ import annotations

import fcntl
import http.client
import os
import pty
import re
import socket
import struct
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.errors import StorageError
from engine.monitor.sample import NodeSample
from jetool.frame import exits
from jetool.output.exporter import PageServer
from jetool.output.node_metrics import NODE_METRICS, node_metrics
from jetool.output.node_table import ORDERS, block, fitted, ordered
from jetool.output.shape import Style
from jetool.output.sparkline import sparkline
from tests.support import corpus
from tests.support.children import child
from tests.support.groups.nodes import free_ports
from tests.support.harness import environment
from tests.support.waiting import PATIENCE_S, eventually

ENV = corpus.path() / "je/je-18.3.20/txn-crash/env"
FULL = NodeSample(
    time=1_800_000_000_000, node="n1", place="db1.example.org:5001", group="STORE", state="REPLICA", writer=4711,
    master="n2", vlsn=123_456_789, vlsn_rate=1234.5, lag=12_345, commits=9, commit_rate=0.125, last_commit=1,
    end_of_log=0x1F_00002A3C, log_files=1234, log_bytes=5 << 40, appended_bytes=9, append_rate=1e7, utilization=47,
    cleaner_backlog=12, reserved_bytes=1 << 30, cache_bytes=1 << 30, cache_limit=1 << 31, checkpoint=1,
    checkpoint_age=9000.0, recovery_bytes=20_000_000, disk_free=1 << 40, disk_left=-5_000_000, je_version="18.3.20",
    load=1.5,
)  # fmt: skip
DOWN = NodeSample(time=1, node="n2", place="b:1", group="STORE", problem="b:1 cannot be reached: Connection refused")


@pytest.mark.parametrize("width", range(40, 260, 20))
def test_the_table_fits_any_width(width: int) -> None:
    text = block([FULL, DOWN], Style(width=width))
    assert all(len(line) <= width for line in text.splitlines())
    assert "n2    NO ANSWER" in text
    assert "REPLICA" in text
    names = [column.heading for column in fitted([FULL, DOWN], width).columns]
    assert names[:2] == ["node", "state"]
    assert ("lag" in names, "place" in names) == (True, width >= 200)


def test_without_a_width_nothing_is_left_out() -> None:
    assert len(fitted([FULL], None).columns) == 21
    # Columns without a value in any row are.
    assert [column.heading for column in fitted([DOWN], None).columns] == ["node", "state", "place"]
    hostile = FULL._replace(node="\x1b[2J" + "x" * 99, place="\n")
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", block([hostile, DOWN._replace(problem="\x1b]0;")], Style(width=80)))


def test_orders() -> None:
    near, far = FULL._replace(node="a", lag=0, disk_left=5), FULL._replace(node="b", lag=9, disk_left=9)
    assert [one.node for one in ordered([near, far, DOWN], "l")] == ["n2", "b", "a"]
    assert [one.node for one in ordered([far, near], "d")] == ["a", "b"]
    assert [one.node for one in ordered([near, far], "n")] == ["a", "b"]
    for key in ORDERS:
        assert len(ordered([near, DOWN, far], key)) == 3


@pytest.mark.parametrize(
    ("values", "line"),
    [([], ""), ([None], ""), ([3, 3], "▁▁"), ([0, 5, 10], "▁▅█"), ([0, None, 7], "▁ █"), (list(range(48)), None)],
)
def test_sparklines(values: list[float | None], line: str | None) -> None:
    shown = sparkline(values)
    assert len(shown) <= 24
    if line is not None:
        assert shown == line
    else:
        assert (shown[0], shown[-1], len(shown)) == ("▁", "█", 24)


def test_metrics() -> None:
    page = node_metrics([FULL, DOWN, DOWN]).decode()
    series: dict[str, dict[str, str]] = {}
    for line in page.splitlines():
        if not line.startswith("#"):
            matched = re.fullmatch(r'(\w+)\{((?:\w+="[^"]*",?)+)\} (-?[\d.e+]+)', line)
            assert matched, line
            labels = series.setdefault(matched[1], {})
            # Prometheus refuses a page with two series of the same labels.
            assert matched[2] not in labels
            labels[matched[2]] = matched[3]
    assert {metric.name for metric in NODE_METRICS} <= series.keys()
    assert sorted(series["jetool_node_up"].values()) == ["0", "1"]
    assert list(series["jetool_disk_left_bytes"].values()) == ["-5000000"]
    assert "# TYPE jetool_commits_total counter" in page
    assert 'node="a\\"b\\\\"' in node_metrics([FULL._replace(node='a"b\\')]).decode()


def asked(server: PageServer, method: str, path: str) -> tuple[int, bytes]:
    host, _, port = server.address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE_S)
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_the_exporter() -> None:
    with PageServer(("127.0.0.1", 0)) as server:
        assert asked(server, "GET", "/metrics")[0] == 503
        server.show(b"page 1\n")
        assert asked(server, "GET", "/metrics") == (200, b"page 1\n")
        assert asked(server, "HEAD", "/metrics") == (200, b"")
        assert asked(server, "GET", "/metrics?x=1")[0] == 200
        assert asked(server, "GET", "/")[0] == 404
        assert asked(server, "GET", "/metrics/../etc/passwd")[0] == 404
        assert asked(server, "POST", "/metrics")[0] == 501
        server.show(b"page 2\n")
        assert asked(server, "GET", "/metrics") == (200, b"page 2\n")
        with pytest.raises(StorageError, match="cannot listen"):
            PageServer(("127.0.0.1", int(server.address.rpartition(":")[2])))
    assert not any(thread.name == "metrics" and thread.is_alive() for thread in threading.enumerate())


def test_callers_that_say_nothing() -> None:
    """Too many at a time are turned away; the others end; then the page is served again."""
    with PageServer(("127.0.0.1", 0)) as server:
        server.show(b"page\n")
        host, _, port = server.address.rpartition(":")
        silent = [socket.create_connection((host, int(port)), PATIENCE_S) for _ in range(30)]
        # The last ones find the end of the stream at once.
        assert silent[-1].recv(1) == b""
        for one in silent[:15]:
            one.sendall(b"GET /metrics")
        for one in silent:
            one.close()
        eventually(lambda: asked_or_closed(server), (200, b"page\n"))


def asked_or_closed(server: PageServer) -> tuple[int, bytes]:
    try:
        return asked(server, "GET", "/metrics")
    except OSError:
        return 0, b""


def test_an_exporter_as_a_process(tmp_path: Path) -> None:
    """A group that is not there yet is a value, and no error."""
    ((host, port), (_, gone)) = free_ports(2)
    words = ["watch", str(ENV), f"127.0.0.1:{gone}", "--listen", f":{port}", "--interval", "0.1"]
    out = tmp_path / "out"
    with out.open("wb") as file, child([sys.executable, "-m", "jetool", *words], stdout=file) as process:

        def page() -> str:
            try:
                connection = http.client.HTTPConnection(host, port, timeout=PATIENCE_S)
                connection.request("GET", "/metrics")
                return connection.getresponse().read().decode()
            except OSError:
                return ""

        eventually(lambda: "jetool_node_up" in page())
        lines = [line for line in page().splitlines() if line.startswith("jetool_node_up")]
        assert sorted(line[-1] for line in lines) == ["0", "1"]
        process.send_signal(2)
        assert process.wait(PATIENCE_S) == exits.DONE
    assert out.read_bytes() == b""


class Terminal:
    """A program on a terminal: what it draws, and keys."""

    def __init__(self, columns: int, *words: str) -> None:
        self.pid, self._number = pty.fork()
        if not self.pid:
            os.execve(sys.executable, [sys.executable, "-m", "jetool", *words], environment(TERM="xterm", COLUMNS=""))
        fcntl.ioctl(self._number, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self._drawn = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            while data := os.read(self._number, 65536):
                self._drawn += data
        except OSError:
            return

    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._drawn.decode(errors="replace"))

    def press(self, key: str) -> None:
        os.write(self._number, key.encode())

    def wait(self) -> int:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._thread.join(PATIENCE_S)
                os.close(self._number)
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.kill(self.pid, 9)
        raise AssertionError(self.text())


@contextmanager
def on_a_terminal(columns: int, *words: str) -> Iterator[Terminal]:
    terminal = Terminal(columns, *words)
    try:
        yield terminal
    except BaseException as error:
        error.add_note(terminal.text()[-3000:])
        raise


@pytest.mark.parametrize("end", ["q", "\x03"])
def test_the_screen(end: str) -> None:
    with on_a_terminal(80, "watch", str(ENV), "--interval", "0.1") as terminal:
        eventually(lambda: "q quit" in terminal.text() and "closed" in terminal.text())
        terminal.press("g")
        eventually(lambda: "g growth*" in terminal.text())
        terminal.press("p")
        eventually(lambda: "paused" in terminal.text())
        terminal.press(end)
        assert terminal.wait() == exits.DONE
        # The last sample stays on the terminal, without the keys.
        assert "closed" in terminal.text()[terminal.text().rindex("q quit") :]
        assert "Traceback" not in terminal.text()


def test_a_screen_ends_after_its_samples() -> None:
    with on_a_terminal(200, "watch", str(ENV), "--interval", "0.1", "--count", "3") as terminal:
        assert terminal.wait() == exits.DONE
