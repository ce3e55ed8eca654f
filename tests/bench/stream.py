"""``python -m tests.bench.stream``: records per second of ``jetool stream``, from a master that is played.

The master hands out prepared bytes as fast as they are taken: what is measured is reading, assembling and printing
alone, in CPU seconds of one process. Each transaction has ten records of an 11-byte key and 100 bytes, as a master of
JE 18.3 sends them. The bound is a rate, since JE has no tool that does this.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from unittest.mock import patch

from engine.format.codecs import encode_body
from engine.format.entry.ln import EMBEDDED, LN
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT, INS_LN_TX
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.rep.wire.entries import WireEntry
from tests.support.groups.group_double import GroupDouble, NodeDouble, StreamConnection, recorded_entries
from tests.support.harness import run

LEAST_RATE: Final = 60_000
_RECORDS_OF_A_TXN: Final = 10
_VERSION: Final = 17
_DATABASE: Final = -258
# Up to the creation of three databases.
_BEGINNING: Final = 22
_BATCH: Final = 1500


def main(args: Sequence[str] | None = None) -> int:
    """Measure and print; the code is 1 where the rate is under the bound."""
    options = _parser().parse_args(args)
    log = _log(options.records)
    group = GroupDouble([NodeDouble("n1", 7001, log)], "n1")
    connection = StreamConnection(group, group.nodes[0])
    frames = [connection.framed(log[at : at + _BATCH]) for at in range(0, len(log), _BATCH)]
    slowest = float("inf")
    with tempfile.TemporaryDirectory(prefix="jetool-bench-") as directory, _playing(group, frames):
        for name, option in (("printed", "--output"), ("files", "--to")):
            rates = []
            for number in range(options.runs):
                place = f"{directory}/{name}-{number}"
                began = time.process_time()
                done = run("stream", "localhost:7001", "--from", "begin", "--until-idle", "0", option, place)
                assert done.code == 0, done.err
                rates.append(options.records / (time.process_time() - began))
            slowest = min(slowest, statistics.median(rates))
            print(f"{name:10} {statistics.median(rates):9,.0f} records/s of CPU time  (bound {LEAST_RATE:,})")
    return 0 if slowest >= LEAST_RATE else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.bench.stream", description=__doc__)
    parser.add_argument("--records", type=int, default=200_000, help="records of each run  [default: 200,000]")
    parser.add_argument("--runs", type=int, default=3, help="runs of each way  [default: 3]")
    return parser


def _log(records: int) -> list[WireEntry]:
    log = list(recorded_entries("database-operations/003-Feeder-n1.jsonl.gz"))[:_BEGINNING]
    txn = -1000
    for _ in range(records // _RECORDS_OF_A_TXN):
        for _ in range(_RECORDS_OF_A_TXN):
            vlsn = len(log) + 1
            ln = LN(
                flags=EMBEDDED, flags2=0, flags3=0, db_id=_DATABASE, abort_lsn=NULL_LSN, txn_id=txn, last_lsn=NULL_LSN,
                abort_key=None, abort_data=None, abort_vlsn=NULL_VLSN, abort_expiration=0, abort_modification_time=0,
                abort_creation_time=0, expiration=0, modification_time=0, creation_time=0, prior_size=0, prior_file=-1,
                node_id=None, data=os.urandom(100), content=None, key=b"key%08d" % vlsn, tail=None,
            )  # fmt: skip
            log.append(WireEntry(vlsn, INS_LN_TX, _VERSION, encode_body(INS_LN_TX, _VERSION, ln)))
        vlsn = len(log) + 1
        end = TxnEnd(last_lsn=NULL_LSN, id=txn, time=1_700_000_000_000, master_id=1, dtvlsn=vlsn, master_term=0)
        log.append(WireEntry(vlsn, COMMIT, _VERSION, encode_body(COMMIT, _VERSION, end)))
        txn -= 1
    return log


@contextmanager
def _playing(group: GroupDouble, frames: list[bytes]) -> Iterator[None]:
    """The group is what the command reaches, and hands out these bytes."""

    def streamed(connection: StreamConnection, vlsn: int) -> Iterator[bytes]:
        assert vlsn == 1
        yield connection.heartbeat()
        yield from frames
        while True:
            yield connection.heartbeat()

    network = patch("jetool.commands.stream.command.network_of", lambda _: group)
    with patch.object(StreamConnection, "streamed", streamed), network:
        yield


if __name__ == "__main__":
    raise SystemExit(main())
