"""The result of cleaning one file, and the file's new summary."""

from __future__ import annotations

from collections.abc import Mapping

from engine.cleaner.file_summary import Counters
from engine.format.entry.ln_content import FileSummary
from engine.log.check import PairTotals


class FileReport:
    """The result of cleaning one file.

    Attributes:
        lns_obsolete: number of LNs that are obsolete by their own entry, or by the summary of their file.
        lns_dead: number of LNs to which no slot leads.
        lns_migrated, nodes_dirtied: number of entries that were logged again, or will be.
        lns_locked, lns_expired, lns_extinct: numbers of LNs that are pending, that were dropped as expired, and that
            were dropped as extinct.
        live_bytes, total_bytes: size of the needed entries, and of all.
        live_lns, live_nodes, live_ln_bytes: number of needed LNs and nodes, and size of these LNs.
        totals: entries and bytes by type.
        written_bytes: bytes of the migrated LNs.
    """

    __slots__ = (
        "live_bytes", "live_ln_bytes", "live_lns", "live_nodes", "lns_dead", "lns_expired", "lns_extinct",
        "lns_locked", "lns_migrated", "lns_obsolete", "nodes_dead", "nodes_dirtied", "number", "total_bytes", "totals",
        "written_bytes",
    )  # fmt: skip

    def __init__(self, number: int, totals: Mapping[int, PairTotals]) -> None:
        self.number = number
        self.totals = totals
        self.total_bytes = sum(found.total_bytes for found in totals.values())
        self.live_bytes = self.live_ln_bytes = self.live_lns = self.live_nodes = self.written_bytes = 0
        self.lns_obsolete = self.lns_dead = self.lns_migrated = self.lns_locked = self.lns_expired = 0
        self.nodes_dead = self.nodes_dirtied = self.lns_extinct = 0

    def needed_ln(self, size: int) -> None:
        """Count a live LN of ``size`` bytes."""
        self.live_lns += 1
        self.live_ln_bytes += size
        self.live_bytes += size

    def needed_node(self, size: int) -> None:
        """Count a live node of ``size`` bytes."""
        self.live_nodes += 1
        self.live_bytes += size

    def summary(self) -> FileSummary:
        """The file's FileSummaryLN according to these counts."""
        counters = Counters()
        for number, found in self.totals.items():
            counters.count_many(number, found.entries, found.total_bytes, found.most_bytes)
        counters.obsolete_in_count = counters.total_in_count - self.live_nodes
        counters.obsolete_ln_count = counters.total_ln_count - self.live_lns
        counters.obsolete_ln_size = counters.total_ln_size - self.live_ln_bytes
        counters.obsolete_ln_size_counted = counters.obsolete_ln_count
        return counters.summary()
