"""``jetool backup``: backups of environments and of running nodes, in a directory of backups."""

from __future__ import annotations

from jetool.commands.backup.backup_list import backup_list
from jetool.commands.backup.prune import backup_prune
from jetool.commands.backup.take import backup_take
from jetool.commands.backup.verify import backup_verify
from jetool.frame.groups import group

backup = group(
    "backup",
    help="Backups of an environment, or of a running JE node. If no command is given, it is take.",
    examples=(
        ("A backup, beside a server that writes", "jetool backup /data/env /backup/env"),
        ("List the backups", "jetool backup list /backup/env"),
        ("Are they undamaged, and do they recover", "jetool backup verify /backup/env"),
        ("Keep one for each of 7 days and 4 weeks", "jetool backup prune /backup/env --keep 7d4w"),
    ),
    default="take",
    metavar="[take] ENV|HOST:PORT DEST [OPTIONS] | COMMAND DEST [OPTIONS]",
)
for _command in (backup_take, backup_list, backup_verify, backup_prune):
    backup.add_command(_command)
