"""``jetool fleet``: work over many environments in one Spark job."""

from __future__ import annotations

from jetool.command import group
from jetool.fleet.compare import compare
from jetool.fleet.report import report
from jetool.fleet.salvage import salvage
from jetool.fleet.verify import verify

fleet = group(
    "fleet",
    help="Many environments in one Spark job: reports, comparison of nodes, checks, salvage.",
    examples=(
        ("What state is every environment in, as a page", "jetool fleet report '/data/*/je' --html fleet.html"),
        ("Which node is newest", "jetool fleet compare /data/node1 /data/node2 /data/node3"),
    ),
)
for _command in (report, compare, verify, salvage):
    fleet.add_command(_command)
