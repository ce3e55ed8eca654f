"""``jetool fleet``: process many environments in one job, on Spark or on this machine."""

from __future__ import annotations

from jetool.commands.fleet.compare import compare
from jetool.commands.fleet.report import report
from jetool.commands.fleet.salvage import salvage
from jetool.commands.fleet.verify import verify
from jetool.frame.groups import group

fleet = group(
    "fleet",
    help="Many environments in one job, on Spark or this machine: reports, comparison of nodes, checks, salvage.",
    examples=(
        ("What state is every environment in, as a page", "jetool fleet report '/data/*/je' --html fleet.html"),
        ("Which node is newest", "jetool fleet compare /data/node1 /data/node2 /data/node3"),
    ),
)
for _command in (report, compare, verify, salvage):
    fleet.add_command(_command)
