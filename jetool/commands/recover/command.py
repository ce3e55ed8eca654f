"""``jetool recover``: run recovery, preview first."""

from __future__ import annotations

from collections.abc import Collection

import click

from engine.diagnosis.record import LostNames
from engine.errors import UsageError, plural
from engine.events import Listener
from engine.format.lsn import NULL_LSN, file_of, format_lsn
from engine.inspect.survey import survey
from engine.inspect.vlsn_map import vlsn_ends
from engine.log.files import list_log_files, log_file_name
from engine.log.tail import LastCheckpoint
from engine.rescue.repair import recovery
from engine.rescue.repair.recovery import RecoveryRun, RepairOptions, plan_recovery
from engine.rescue.repair.settlement import as_before
from engine.storage.disk import DiskStorage
from engine.verdict import DAMAGED, CheckVerdict
from jetool.commands.recover.estimate import RecoveryEstimateRow, print_estimate
from jetool.commands.recover.rows import RecoveryReport, recovered
from jetool.frame import exits, kinds
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import WRITE_EXITS, config_of, with_orders
from jetool.frame.log_damage import find_damage_before, lost_in
from jetool.frame.options import Run


def _outputs() -> Outputs:
    from jetool.commands.recover import derby_explain_rows, derby_rows, derby_timeline_rows

    derby = (derby_rows.DerbyRecoveryReport, derby_explain_rows.TextbookReport, derby_timeline_rows.TimelineReport)
    return Outputs("document", (RecoveryReport, RecoveryEstimateRow, *derby), derby=derby)


def _check(
    _: Run, *, accept_loss: bool, je_default: bool, explain: bool, timeline: bool, estimate: bool, **__: object
) -> None:
    if estimate and (accept_loss or je_default or explain):
        raise UsageError("--estimate recovers nothing", hint="leave --accept-loss, --je-default and --explain out")
    if accept_loss and je_default:
        raise UsageError("--accept-loss and --je-default exclude each other", hint="give one of them")
    if timeline and not explain:
        raise UsageError("--timeline is a form of --explain", hint="give both")


@command(
    "recover",
    check=_check,
    outputs=_outputs,
    features=("fields", "progress", "lock", "cache", "order", "write"),
    examples=(
        ("Preview; changes nothing, not even a lock file", "jetool recover /data/env -n"),
        ("How long it would take", "jetool recover /data/env --estimate"),
        ("Recover, with a chosen directory for the old bytes", "jetool recover /data/env --backup-dir /backup/env"),
        ("Discard committed work after damage (make a copy first)", "jetool recover /data/env --accept-loss"),
        ("Transactions of a Derby database beside its checkpoint", "jetool recover /data/derby --explain --timeline"),
    ),
    exits={
        exits.DONE: "recovered; nothing was lost",
        **WRITE_EXITS,
        exits.REFUSED: (
            "committed work follows a bad entry, or may be in one; the environment is locked; a restore marker is set"
        ),
        exits.DATA_GIVEN_UP: (
            "recovered; committed transactions, or records outside transactions, were cut off and their bytes saved, "
            "or damaged entries were read without verification"
        ),
    },
)
@environment
@click.option("--accept-loss", is_flag=True, help="Continue although committed transactions will be lost (exit 6).")
@click.option("--je-default", is_flag=True, help="Cut at the first bad entry as JE does, whatever follows.")
@click.option("--explain", is_flag=True, help="Derby: compare each record with textbook ARIES; change nothing.")
@click.option(
    "--estimate",
    is_flag=True,
    help="Estimate from a sample what recovery reads and writes, and its time; change nothing.",
)
@click.option(
    "--timeline", is_flag=True, help="With --explain: print a timeline of transactions, checkpoint and crash."
)
def recover(
    run: Run, env: str, accept_loss: bool, je_default: bool, explain: bool, timeline: bool, estimate: bool
) -> int:
    """Cut off a torn tail, redo committed work after the last checkpoint, undo uncommitted work, and take a checkpoint.

    JE (or, for a Derby database, Derby) does the same when it opens the environment. The command examines the log first
    and never prompts, so a runbook can call it without a terminal. It refuses and changes nothing if committed
    transactions follow the first bad entry of the log: JE would silently cut them off. It also refuses if no checkpoint
    follows damage before the last file, because JE then reads the damaged part unchecked. Every byte that is cut off or
    changed is saved first, in --backup-dir or in a new directory beside the environment, and jetool undo restores the
    previous state. With -n recovery runs in memory only. Notes list the settings that JE needs, and the reasons why JE
    would refuse the log. With --estimate the command reads only the end of the log and a sample of 4 MB, and prints the
    phases of recovery, their bytes and their approximate time.

    Records outside transactions after a bad entry do not stop recovery: a warning counts them, and the exit code is 6.

    Damage before the last checkpoint does not stop recovery, which does not read that part. One warning names the first
    damaged place. Checksums are verified in up to a gigabyte of files; in the rest, only headers are.

    In a Derby database prepared (XA) transactions are kept. --explain changes nothing: it prints, for each record, what
    recovery does and what textbook ARIES (page LSNs, dirty page table, analysis pass) would do. With --timeline it
    prints a timeline of the transactions, the last checkpoint and the crash.
    """
    if explain or timeline:
        raise kinds.not_for(kinds.JE, "--explain")
    if estimate:
        return print_estimate(run, env)
    # Read the VLSNs before recovery, which may roll back a part of the stream.
    before = _vlsns(env, run.listener)
    done, absent, names = _recover(run, env, accept_loss=accept_loss or je_default)
    seen = as_before(DiskStorage(env))
    earlier = None
    if done.result.ckpt_end_lsn != NULL_LSN:
        earlier = find_damage_before(run, seen, list_log_files(seen), file_of(done.result.first_active_lsn))
    given_up = bool(done.result.changed or done.records_given_up or done.tail.commits_at_risk)
    code = exits.DATA_GIVEN_UP if given_up else exits.DONE
    verdict = exits.verdict(code, _why(done), partly=True)
    # Recovery loses nothing by what it does not read, so that the exit code does not say it.
    harm = [f"{log_file_name(min(absent))}, into which the trees lead, is missing"] if absent else []
    harm += [earlier.in_words()] if earlier is not None else []
    if harm:
        verdict = CheckVerdict(DAMAGED, "; ".join([*harm, verdict.why]))
    run.out.document(recovered(env, verdict, done, before, names, dry_run=run.dry_run))
    if done.backup is not None:
        run.messages.notice(
            f"the old bytes were saved in {done.backup}", hint=f"jetool undo {env} reverts the recovery"
        )
    if earlier is not None:
        earlier.warn(run, env)
    if run.dry_run:
        from jetool.frame.environments import say_notes_for_je

        begun = done.result
        last = LastCheckpoint(begun.ckpt_end_lsn, begun.partial_ckpt_start, begun.root_lsn)
        say_notes_for_je(run, seen, list_log_files(seen), last)
    _warn_of_loss(run, env, done)
    return code


def _why(done: RecoveryRun) -> str:
    """What the verdict rests on: what recovery gives up, or what it does."""
    lost, records, changed = done.tail.commits_at_risk, done.records_given_up, len(done.result.changed)
    given_up = [plural(lost, "committed transaction")] if lost else []
    given_up += [f"{plural(records, 'record')} outside transactions"] if records else []
    if given_up:
        where = f"after damage in {done.tail.last_file.path} at {format_lsn(done.tail.end_lsn)}"
        return f"recovery loses {' and '.join(given_up)} {where}"
    if changed:
        return f"recovery trusts {plural(changed, 'damaged entry', 'damaged entries')} before the last file"
    undone = len(done.result.undone)
    ends = f" and undoes {plural(undone, 'transaction')} without an end" if undone else ""
    return f"recovery loses no commit{ends}; it does not read the log before the last checkpoint"


def _warn_of_loss(run: Run, env: str, done: RecoveryRun) -> None:
    """Warn about damaged entries that were read and about lost commits."""
    lost, changed = done.tail.commits_at_risk, done.result.changed
    if changed:
        run.messages.warning(
            f"{plural(len(changed), 'damaged entry', 'damaged entries')} before the last file: read as they are",
            file=changed[0].file,
            lsn=changed[0].lsn,
            consequence="records that they hold, or that they committed, may be lost or wrong",
            hint=f"jetool verify --data {env}",
        )
    records = done.records_given_up
    if records:
        run.messages.warning(
            f"{plural(records, 'record')} outside transactions {_done(run, records)} given up after a bad entry",
            file=f"{env}/{done.tail.last_file.path}",
            lsn=format_lsn(done.tail.end_lsn),
            consequence=f"{plural(done.tail.given_up_bytes, 'byte')} {_done(run, done.tail.given_up_bytes)} cut off",
            hint=f"restore the file from a copy; jetool salvage {env} --out DIR reads the records after it"
            if run.dry_run
            else f"revert it: jetool undo {env}; then jetool salvage reads the records after it",
        )
    if lost:
        run.messages.warning(
            f"{plural(lost, 'committed transaction')} {_done(run, lost)} given up",
            file=f"{env}/{done.tail.last_file.path}",
            lsn=format_lsn(done.tail.end_lsn),
            found=done.tail.after.in_words(),
            consequence=f"{plural(done.tail.given_up_bytes, 'byte')} {_done(run, done.tail.given_up_bytes)} cut off",
        )


def _recover(run: Run, env: str, *, accept_loss: bool) -> tuple[RecoveryRun, Collection[int], LostNames]:
    """Recover; with --dry-run also the numbers of missing files that only the trees need; and what is lost."""
    plan = plan_recovery(env, run.listener)
    if plan.may_lack_a_file:
        run.messages.warning(
            "the log ends where a file is full, without a checkpoint",
            file=f"{env}/{plan.tail.last_file.path}",
            lsn=format_lsn(plan.tail.end_lsn),
            consequence="a file after it may be lost, with what was committed in it; recovery goes on without it",
            hint="look for it in backups before this node writes on; jetool diff compares with a replica",
        )
    if not accept_loss:
        plan.require_no_loss()
    # Recovery does not read files from before the checkpoint, so a dry run must also look for missing ones.
    absent: Collection[int] = lost_in(run, plan.seen, plan.files) if run.dry_run else ()
    names = LostNames()
    if plan.tail.holds_records:
        from engine.diagnosis.application import names_after_damage

        # Recovery cuts off what is to be named.
        names = names_after_damage(plan.seen, plan.files, plan.tail, run.listener)
    config = with_orders(run, plan.seen, config_of(run))
    options = RepairOptions(dry_run=run.dry_run, backup_dir=run.backup_dir, lock_timeout_s=run.lock_timeout_s)
    done = recovery.recover(plan, options, accept_loss=accept_loss, config=config, listener=run.listener)
    return done, absent, names


def _done(run: Run, count: int) -> str:
    return "would be" if run.dry_run else "was" if count == 1 else "were"


def _vlsns(env: str, listener: Listener) -> tuple[int, int]:
    storage = as_before(DiskStorage(env))
    files = list_log_files(storage)
    # Read the VLSNs from headers, or entry by entry if there is damage.
    ends = vlsn_ends(storage, files)
    if ends is not None:
        return ends
    found = survey(storage, files, listener=listener)
    return found.first_vlsn, found.last_vlsn
