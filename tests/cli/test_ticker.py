"""The ticker of the main thread, with the real timer of the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from jetool.output.ticker import Ticker
from tests.support import harness
from tests.support.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer on this platform")

INTERVAL_S = 0.02


def ticks_within(ticks: list[float], number: int) -> bool:
    """Whether so many ticks come while the main thread computes."""
    until = time.monotonic() + PATIENCE_S
    while len(ticks) < number and time.monotonic() < until:
        pass
    return len(ticks) >= number


def test_it_ticks_between_start_and_stop() -> None:
    ticks: list[float] = []
    ticker = Ticker(INTERVAL_S, lambda: ticks.append(0.0))
    ticker.start()
    ticker.start()
    assert ticks_within(ticks, 3)
    ticker.stop()
    ticker.stop()
    seen = len(ticks)
    time.sleep(5 * INTERVAL_S)
    assert len(ticks) == seen
    ticker.start()
    assert ticks_within(ticks, seen + 1)
    ticker.stop()


def test_calls_that_wait_are_not_cut_short() -> None:
    ticks: list[float] = []
    ticker = Ticker(INTERVAL_S, lambda: ticks.append(0.0))
    ticker.start()
    begun = time.monotonic()
    time.sleep(10 * INTERVAL_S)
    assert time.monotonic() - begun >= 10 * INTERVAL_S
    come, go = os.pipe()
    threading.Timer(5 * INTERVAL_S, os.write, (go, b"data")).start()
    assert os.read(come, 9) == b"data"
    assert subprocess.run(["sleep", str(5 * INTERVAL_S)], check=False).returncode == 0
    ticker.stop()
    assert ticks
    os.close(come)
    os.close(go)


def test_a_child_process_has_no_timer() -> None:
    ticker = Ticker(INTERVAL_S, lambda: None)
    ticker.start()
    child = os.fork()
    if child == 0:
        os._exit(1 if signal.getitimer(signal.ITIMER_REAL)[0] else 0)
    assert os.waitpid(child, 0)[1] == 0
    program = "import signal; print(signal.getsignal(signal.SIGALRM) is signal.SIG_DFL, signal.getitimer(0)[0])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    ticker.stop()
    assert done.stdout.split() == ["True", "0.0"]


def test_nothing_is_done_in_another_thread() -> None:
    ticks: list[float] = []
    ticker = Ticker(INTERVAL_S, lambda: ticks.append(0.0))
    thread = threading.Thread(target=ticker.start)
    thread.start()
    thread.join()
    time.sleep(3 * INTERVAL_S)
    assert not ticks


def test_a_handler_of_the_program_is_kept() -> None:
    def of_the_program(*_: object) -> None:
        raise AssertionError

    signal.signal(signal.SIGALRM, of_the_program)
    try:
        ticker = Ticker(INTERVAL_S, lambda: None)
        ticker.start()
        ticker.stop()
        assert signal.getsignal(signal.SIGALRM) is of_the_program
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_a_bar_shows_that_a_long_step_still_runs() -> None:
    """On a pseudo-terminal: a step that is told once is drawn again and again, and the bar is erased at the end."""
    code = (
        "import time; from jetool.output import messages\n"
        "messages._DELAY_S, messages._TICK_S = 0.0, 0.05\n"
        "bar = messages.make_reporter('auto', quiet=False); assert isinstance(bar, messages.Bar), bar\n"
        "bar.step('read log', 1, 4); end = time.monotonic() + 1.0\n"
        "while time.monotonic() < end: pass\n"
        "bar.close(); print('closed'); time.sleep(0.3)\n"
    )
    wrapper = "import pty, sys; sys.exit(pty.spawn([sys.executable, '-c', sys.argv[1]]) >> 8)"
    env = harness.environment(TERM="xterm", COLUMNS="80")
    done = subprocess.run(
        [sys.executable, "-c", wrapper, code], env=env, capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout
    drawn, _, after = done.stdout.partition(b"closed")
    assert drawn.count(b"read log") > 5
    assert b"0:00:01" in drawn, "the time goes on"
    assert b"read log" not in after
