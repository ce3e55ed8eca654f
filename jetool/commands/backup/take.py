"""``jetool backup ENV DEST``: a backup of an environment, or of a running node."""

from __future__ import annotations

import os
import time
from typing import Any, Final

import click

from engine.backup.backup_run import Taken, plan, take
from engine.backup.follower import Follower
from engine.backup.manifest import Manifest
from engine.backup.manifest_builder import Origin
from engine.errors import JetoolError, RefusedError, UsageError, plural
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.rep.client.connection import Address
from engine.rep.client.group_state import check_group, look
from engine.rep.client.hot_copy import HotCopy, choose
from engine.rep.peers import PeerError, address_text
from engine.storage.disk import DiskStorage
from engine.storage.throttle import Throttle
from jetool.commands.backup.repository_lookup import DEST_HELP, open_repository
from jetool.commands.backup.rows import BackupRound, TakenBackup, backup_round, group_of, lost_text
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment_or
from jetool.frame.environments import node_address
from jetool.frame.kinds import require_je
from jetool.frame.networks import network_of, refuse_tls
from jetool.frame.options import Run

_TIMEOUT_S: Final = 5.0
_RETRIES: Final = 5
_EVERY_S: Final = 10.0


def _check(
    run: Run,
    *,
    env: str,
    dest: str,
    node: str | None,
    from_master: bool,
    group: str | None,
    rate: int | None,
    retries: int,
    timeout: float,
    force: bool,
    follow: bool,
    every: float | None,
    rounds: int | None,
) -> None:
    if not follow and (every is not None or rounds is not None):
        raise UsageError("--every and --rounds are for --follow")
    if follow and run.dry_run:
        raise UsageError("--follow has no plan: leave out -n, or --follow")
    if follow and run.out.format in ("json", "csv"):
        raise UsageError(f"--follow has no end, which --format {run.out.format} needs", hint="add --format ndjson")
    if node_address(env) is None:
        given = {
            "node": node,
            "from-master": from_master,
            "group": group,
            "rate": rate,
            "force": force,
            "retries": retries != _RETRIES,
            "timeout": timeout != _TIMEOUT_S,
        }
        words = [f"--{word}" for word, value in given.items() if value]
        if words:
            raise UsageError("only a node that runs has these options", found=", ".join(words))
        refuse_tls("a backup of a directory")
        if os.path.realpath(dest) == os.path.realpath(env):
            raise UsageError("the backups need a directory of their own", file=dest)
        return
    if follow:
        raise UsageError("--follow is for a directory: a node gets one log file more for each backup")
    if from_master and node is not None:
        raise UsageError("--node names the node, master or not: --from-master has no effect with it")
    if group is not None:
        check_group(group)


@command(
    "take",
    check=_check,
    names_end=True,
    outputs=lambda: Outputs("document", (TakenBackup, BackupRound)),
    features=("fields", "progress", "times", "plan", "tls"),
    examples=(
        ("A backup, beside a server that writes", "jetool backup /data/env /backup/env"),
        ("Preview a backup", "jetool backup /data/env /backup/env -n"),
        (
            "Continuously, with a line of NDJSON for each backup",
            "jetool backup /data/env /backup/env --follow --format ndjson",
        ),
        ("Back up a running group from its least busy replica", "jetool backup fe1:9010 /backup/fe"),
        ("Back up a given node, at most 20 MB/s", "jetool backup fe1:9010 /backup/fe2 --node fe2 --rate 20000000"),
    ),
    exits={
        exits.DONE: "a backup was added, and recovers",
        exits.FINDINGS: "a backup was added, but the copy does not recover, because the original is damaged",
        exits.REFUSED: (
            "the environment has a restore marker, its files keep changing, or another run adds or removes backups; "
            "only the master is there, or the node refuses"
        ),
        exits.NOT_FOUND: "no environment; no node answers, or none has that name; no directory above DEST",
        exits.UNSUPPORTED: "a log version that this program does not read; a release of JE outside 7.3 to 25.3",
        exits.DATA_GIVEN_UP: "a backup was added; committed transactions after a bad entry are not in it",
        exits.INCOMPLETE: (
            "a file cannot be read, DEST cannot be written, or the connection was cut too often: run the command "
            "again to continue"
        ),
    },
)
@environment_or("ENV|HOST:PORT", "Directory of an environment, or where a node of a running group listens.")
@click.argument("dest", type=click.Path(), metavar="DEST", help=DEST_HELP)
@click.option("--follow", is_flag=True, help="For a directory: add a backup whenever it has grown, until interrupted.")
@click.option(
    "--every",
    type=click.FloatRange(0.01, 86_400),
    metavar="S",
    help="With --follow, seconds between two checks.  [default: 10]",
)
@click.option("--rounds", type=click.IntRange(1), metavar="N", help="Stop --follow after N checks.")
@click.option("--node", metavar="NAME", help="Copy this node, master or not.  [default: the least busy replica]")
@click.option("--from-master", is_flag=True, help="Copy the master if there is no replica.")
@click.option("--group", metavar="NAME", help="Name of the running group.  [default: as the node reports]")
@click.option(
    "--rate",
    type=params.RateType(),
    help="When copying a node, at most SIZE bytes per second.",
)
@click.option(
    "--retries",
    type=click.IntRange(0, 1000),
    default=_RETRIES,
    metavar="N",
    help="Reconnect at most N times after lost connections.  [default: 5]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.1, 3600),
    default=_TIMEOUT_S,
    metavar="S",
    help="Longest wait for each answer of a node, in seconds; at least a minute once the copy has begun.  [default: 5]",
)
@click.option("--force", is_flag=True, help="Also copy from a JE release outside 7.3 to 25.3.")
def backup_take(
    run: Run, /, env: str, dest: str, follow: bool, every: float | None, rounds: int | None, **options: Any
) -> int:
    """Add a backup to the directory DEST, which is created if needed.

    The environment may be closed, or in use by JE or jetool: no lock is taken, and the writer never waits. Files are
    copied in ascending order, the last one up to its last whole entry; if a file is deleted or changed meanwhile, the
    list is made again. Files that an earlier backup holds are neither read again nor stored twice. Finally the copy is
    recovered in memory as a check.

    With --follow a backup is added whenever the log has grown. The new backup replaces the previous one if it contains
    all of it, so every point in time stays restorable. A run that was killed continues when it is started again.

    A running JE node is backed up through its own port, by the protocol of JE's network restore and without Java: the
    node begins a new log file, protects the files before it, and sends them with digests. Each backup adds one small
    file to the node's log. An interrupted copy continues when it is run again.
    """
    address = node_address(env)
    if follow:
        return _followed(run, env, dest, _EVERY_S if every is None else every, rounds)
    return _of_environment(run, env, dest) if address is None else _of_node(run, address, dest, **options)


def _of_environment(run: Run, env: str, dest: str) -> int:
    began = time.monotonic()
    storage, repository, source = DiskStorage(env), open_repository(dest), os.path.realpath(env)
    require_je(storage)
    backup = _of(dest, source)._replace(attempts=1)
    if run.dry_run:
        planned = plan(storage, repository, source)
        run.out.document(
            backup._replace(
                files=planned.files,
                bytes=planned.size_bytes,
                copied_files=planned.to_copy,
                copied_bytes=planned.to_copy_bytes,
                kept_files=planned.files - planned.to_copy,
                end_lsn=planned.end_lsn,
                duration=_since(began),
            )
        )
        return exits.DONE
    taken = take(storage, repository, source, listener=run.listener)
    found = taken.manifest
    backup = _made(backup, found, began)._replace(
        node=found.node,
        group=group_of(found),
        files=len(found.files),
        bytes=found.size_bytes,
        copied_files=taken.copied_files,
        copied_bytes=taken.copied_bytes,
        kept_files=len(found.files) - taken.copied_files,
        attempts=taken.attempts,
        gone_files=list(taken.gone),
        lost_files=lost_text(taken),
        torn_bytes=taken.given_up_bytes,
        commits_after=taken.commits_after,
        first_vlsn=found.vlsns[0],
        last_vlsn=found.vlsns[1],
    )
    run.out.document(backup)
    return _code(run, env, taken)


def _followed(run: Run, env: str, dest: str, every_s: float, rounds: int | None) -> int:
    storage = DiskStorage(env)
    require_je(storage)
    follower = Follower(storage, open_repository(dest), os.path.realpath(env), run.listener)
    codes, looks = [exits.DONE], 0
    while True:
        began = time.monotonic()
        try:
            one = follower.round()
        except RefusedError as error:
            # The environment kept changing, or another run holds the backup directory; the next round may succeed.
            if not looks:
                raise
            run.messages.warning(str(error))
            one = None
        if one is not None:
            run.out.document(backup_round(one))
            run.out.flush()
            codes.append(_code(run, env, one.taken))
        looks += 1
        if looks == rounds:
            return exits.worst(codes)
        time.sleep(max(began + every_s - time.monotonic(), 0))


def _code(run: Run, env: str, taken: Taken) -> int:
    codes = [exits.DONE, _recovery_code(run, env, taken.problem)]
    if taken.gone:
        run.messages.notice(
            f"log files deleted before they were copied: {len(taken.gone)}",
            file=f"{env}/{taken.gone[0]}",
            consequence="their records in use are in later files; points in time that need them cannot be restored",
        )
    if taken.lost is not None:
        run.messages.warning(
            f"{lost_text(taken)} went before any backup had it, or its end",
            file=env,
            consequence="points in time between the previous backup and this backup cannot be restored if they need it",
            hint="take backups more often, or keep one running with --follow",
        )
    if taken.commits_after:
        codes.append(exits.DATA_GIVEN_UP)
        stand = plural(taken.commits_after, "committed transaction stands", "committed transactions stand")
        run.messages.warning(
            f"{stand} after a bad entry: not in the backup",
            file=env,
            hint=f"jetool verify --end {env}; jetool salvage {env} saves them",
        )
    return exits.worst(codes)


def _recovery_code(run: Run, env: str, problem: JetoolError | None) -> int:
    if problem is None:
        return exits.DONE
    run.messages.warning(
        "the copy does not recover",
        file=env,
        found=str(problem),
        consequence="the backup holds what there was, damage included",
        hint=f"jetool verify {env}",
    )
    return exits.FINDINGS


def _of_node(
    run: Run,
    address: Address,
    dest: str,
    *,
    node: str | None,
    from_master: bool,
    group: str | None,
    rate: int | None,
    retries: int,
    timeout: float,
    force: bool,
) -> int:
    began = time.monotonic()
    began_ms = time.time_ns() // 1_000_000
    network = network_of(run)
    found = look(network, [address], group, timeout)
    chosen = choose(network, found, node, timeout, allow_master=from_master, force=force)
    said = chosen.said
    assert said is not None
    source = address_text(chosen.address)
    backup = _of(dest, source)._replace(
        node=chosen.name, group=found.group, state=said.state, je_version=said.je_version
    )
    if run.dry_run:
        run.out.document(backup._replace(last_vlsn=said.commit_vlsn, duration=_since(began)))
        return exits.DONE
    run.messages.detail(f"copying {chosen.name} at {source}, {said.state}")

    def retried(error: PeerError) -> None:
        run.messages.warning("the copy was cut and goes on", found=str(error))

    copy = HotCopy(open_repository(dest), run.listener, Throttle(rate))
    origin = Origin(source, chosen.name, began_ms)
    done, described = copy.run(network, chosen.address, timeout, retries, retried, origin)
    backup = _made(backup, described.manifest, began)._replace(
        protocol=done.version,
        files=len(done.files),
        bytes=done.size_bytes,
        copied_files=len(done.files) - done.kept_files,
        copied_bytes=done.size_bytes - done.kept_bytes,
        kept_files=done.kept_files,
        attempts=done.attempts,
        torn_bytes=0,
        commits_after=0,
        first_vlsn=done.first_vlsn,
        last_vlsn=done.last_vlsn,
    )
    run.out.document(backup)
    return _recovery_code(run, source, described.problem)


def _of(dest: str, source: str) -> TakenBackup:
    """The result of a dry run, which has read only the directories."""
    return TakenBackup(
        id=None,
        directory=dest,
        source=source,
        dry_run=True,
        node=None,
        group=None,
        state=None,
        je_version=None,
        protocol=None,
        files=None,
        bytes=None,
        copied_files=None,
        copied_bytes=None,
        kept_files=None,
        attempts=0,
        gone_files=[],
        lost_files=None,
        end_lsn=NULL_LSN,
        torn_bytes=None,
        commits_after=None,
        last_commit=None,
        first_vlsn=NULL_VLSN,
        last_vlsn=NULL_VLSN,
        databases=None,
        recovered=None,
        duration=0,
    )


def _made(backup: TakenBackup, manifest: Manifest, began: float) -> TakenBackup:
    """The result of a backup, with data from its manifest."""
    names = manifest.databases
    return backup._replace(
        id=manifest.id,
        dry_run=False,
        end_lsn=manifest.end_lsn,
        last_commit=manifest.last_commit_ms,
        databases=None if names is None else len(names),
        recovered=names is not None,
        duration=_since(began),
    )


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
