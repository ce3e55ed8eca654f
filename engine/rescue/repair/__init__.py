"""Repairs that can be previewed, undone and resumed, as an API and for the command line.

* ``recovery``: recovery with an interlock, saved bytes and a preview
* ``undo``: restores every byte to its state before the last repair
* ``settlement``: undoes an interrupted repair, or finishes its undo, before anything else writes
* ``access``: the lock of a writer, and the directories that hold the bytes that repairs overwrite

Example: a preview, then the recovery itself, then its undo::

    from engine.rescue.repair.recovery import RepairOptions, plan_recovery, recover
    from engine.rescue.repair.undo import undo_repair

    plan = plan_recovery("/data/env")
    print(plan.tail.commits_at_risk, "committed transactions stand after a bad entry")
    recover(plan, RepairOptions(dry_run=True))
    done = recover(plan, RepairOptions(lock_timeout_s=5))
    print(done.result.end_lsn, done.end_lsn, done.backup)
    undo_repair("/data/env")
"""
