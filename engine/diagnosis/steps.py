"""The next commands, in order, with the real paths filled in and what each risks."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.diagnosis import rules
from engine.diagnosis.record import FRONTEND, JOURNAL, LDAP, NO, NOSQL, UNKNOWN, Loss, Step
from engine.errors import plural
from engine.log.marker import MARKER
from engine.verify import log_rules, repairs

READS: Final = "reads only"
# What the steps write stands beside the directory, under its name with these endings.
COPY: Final = ".copy"
SAVED: Final = ".saved"
MARKER_ASIDE: Final = ".marker"
_NEW_DIRECTORY: Final = "writes a new directory; the old one is only read"
# Reasons that need the data to be saved first.
_DAMAGED: Final = frozenset(
    rule.code for rule in (rules.NOT_OPENED, rules.HALTS, log_rules.MARKER, log_rules.RESTORE_ASKED)
)
_SAVED_AS: Final = {FRONTEND: "", LDAP: " --as ldif", NOSQL: " --as ndjson --decode nosql"}


class StepFacts(NamedTuple):
    """What the steps depend on.

    Attributes:
        codes: of reasons that are errors.
        damage: where the log is damaged; empty if it is not, or elsewhere.
        last_file: path of the last log file.
    """

    path: str
    application: str
    can_start: str
    codes: frozenset[str]
    loss: Loss
    damage: str
    last_file: str


def steps_for(facts: StepFacts) -> tuple[Step, ...]:
    """The steps for a JE environment; none if it can start and loses nothing."""
    return tuple(_steps(facts))


def _steps(facts: StepFacts) -> Iterator[Step]:
    codes, env = facts.codes, shlex.quote(facts.path)
    if rules.LOCKED.code in codes:
        yield Step(
            command=f"jetool info {env} --quick", purpose="look again after that process was stopped", risk=READS
        )
        return
    if repairs.RULE.code in codes:
        yield Step(
            command=f"jetool undo {env}", purpose="take the interrupted repair back", risk="restores the saved bytes"
        )
        return
    if facts.can_start == UNKNOWN:
        yield Step(command=f"jetool verify {env}", purpose="what cannot be read", risk=READS)
        return
    yield from _of_machine(facts, env)
    damaged = facts.can_start == NO and _DAMAGED & codes
    # Damage in the log that opening does not meet.
    elsewhere = any(code.startswith(("JE-", "DRB-")) for code in codes)
    if facts.loss.in_words() or damaged or elsewhere:
        yield copy_step(facts.path)
        yield from _look_at_loss(facts, env)
        yield from _rescue(facts, env)
    yield from _of_frontend(facts, env)


def copy_step(path: str) -> Step:
    """Copying the directory, before anything writes to it."""
    target = shlex.quote(path.rstrip("/") + COPY)
    return Step(
        command=f"cp -a {shlex.quote(path)} {target}",
        purpose="keep the files as they are now",
        risk="takes as much room again",
    )


def _of_machine(facts: StepFacts, env: str) -> Iterator[Step]:
    """What is wrong around the log."""
    codes = facts.codes
    if rules.PERMISSIONS.code in codes:
        last = shlex.quote(os.path.join(facts.path, facts.last_file))
        yield Step(
            command=f"chown -R --reference={last} {env}",
            purpose="give the files to the owner of the log",
            risk="changes owners",
        )
        yield Step(
            command=f"chmod -R u+rwX {env}", purpose="let the owner read and write them", risk="changes permissions"
        )
    if rules.DISK.code in codes:
        yield Step(command=f"jetool space {env} --why", purpose="what takes the room, and why it is kept", risk=READS)
        yield Step(
            command=f"jetool clean {env}",
            purpose="give room back while the application is stopped",
            risk="deletes cleaned log files",
        )
    if rules.UNREAD_NODES.code in codes:
        saved = shlex.quote(facts.path.rstrip("/") + SAVED)
        yield Step(
            command=f"jetool salvage {env} --out {saved}",
            purpose="save the records in a new environment",
            risk=_NEW_DIRECTORY,
        )
    elif rules.OLDER_LOG.code in codes or any(code.startswith("JE-OPEN") for code in codes):
        yield Step(
            command=f"jetool recover {env}",
            purpose="convert duplicates and deltas of JE 3 and 4",
            risk="jetool undo takes it back",
        )


def _look_at_loss(facts: StepFacts, env: str) -> Iterator[Step]:
    names, loss = facts.loss.names, facts.loss
    if log_rules.MARKER.code in facts.codes:
        yield Step(
            command=f"jetool info {env} --quick --fields restore_required", purpose="why the marker was set", risk=READS
        )
    if any(one.kind == JOURNAL for one in names):
        yield Step(
            command=f"jetool journal show {env} --after-damage",
            purpose="read the journals that would be lost",
            risk=READS,
        )
    elif facts.damage and (loss.commits or loss.records):
        yield Step(
            command=f"jetool dump-log {env} --from {facts.damage} --data",
            purpose="read what stands after the damage",
            risk=READS,
        )
    if {log_rules.MISSING_NEEDED.code, log_rules.MISSING_UNKNOWN.code} & facts.codes:
        yield Step(command=f"jetool missing {env}", purpose="list what stood only in the missing files", risk=READS)
    elif not loss.commits:
        yield Step(command=f"jetool verify {env} --data", purpose="name every record that cannot be read", risk=READS)


def _rescue(facts: StepFacts, env: str) -> Iterator[Step]:
    loss = facts.loss
    saved = shlex.quote(facts.path.rstrip("/") + SAVED)
    form = _SAVED_AS.get(facts.application, "")
    yield Step(
        command=f"jetool salvage {env} --out {saved}{form}",
        purpose="save the newest committed version of every record, if there is neither a backup nor a replica",
        risk=_NEW_DIRECTORY,
    )
    if loss.commits or loss.records or rules.HALTS.code in facts.codes:
        what = loss.in_words() or "the commits after the damage"
        yield Step(
            command=f"jetool recover {env} --accept-loss",
            purpose="open the log without them, as JE does silently",
            risk=f"gives up {what}; their bytes are saved, and jetool undo {env} brings them back",
        )
    if log_rules.MARKER.code in facts.codes:
        marker, aside = os.path.join(facts.path, MARKER), facts.path.rstrip("/") + MARKER_ASIDE
        yield Step(
            command=f"mv {shlex.quote(marker)} {shlex.quote(aside)}",
            purpose="only when the cause was repaired: take the marker away",
            risk="JE opens a half-restored environment without a word",
        )


def _of_frontend(facts: StepFacts, env: str) -> Iterator[Step]:
    codes = facts.codes
    if {rules.NOT_MEMBER.code, rules.WRONG_ROLE.code, rules.NO_ROLE.code} & codes:
        role = shlex.quote(os.path.join(os.path.dirname(facts.path.rstrip("/")), "image", "ROLE"))
        yield Step(command=f"jetool group show {env}", purpose="the members, as the group knows them", risk=READS)
        yield Step(command=f"cat {role}", purpose="the node that this directory takes itself for", risk=READS)
    if rules.REPLAY_STOPS.code in codes:
        yield Step(
            command=f"jetool journal check {env}",
            purpose="every journal that stops the frontend, and what to do",
            risk=READS,
        )


def derby_steps(facts: StepFacts) -> tuple[Step, ...]:
    """The steps for a Derby database."""
    return tuple(_derby(facts))


def _derby(facts: StepFacts) -> Iterator[Step]:
    database, loss = shlex.quote(facts.path), facts.loss
    if rules.LOCKED.code in facts.codes:
        yield Step(command=f"jetool info {database}", purpose="look again after that process was stopped", risk=READS)
        return
    if "DRB-REPAIR-001" in facts.codes:
        yield Step(
            command=f"jetool undo {database}",
            purpose="take the interrupted repair back",
            risk="restores the saved bytes",
        )
        return
    if rules.PERMISSIONS.code in facts.codes:
        yield from _of_machine(facts, database)
    if not (facts.codes - {rules.PERMISSIONS.code} or loss.in_words() or facts.can_start == UNKNOWN):
        return
    yield copy_step(facts.path)
    yield Step(command=f"jetool verify {database}", purpose="check every page of every table too", risk=READS)
    if loss.commits:
        yield Step(
            command=f"jetool dump-log {database}", purpose="read the log, with what stands after its end", risk=READS
        )
        yield Step(
            command=f"jetool recover {database} --accept-loss",
            purpose="start without them, as Derby does silently",
            risk=f"gives up {plural(loss.commits, 'commit')}; the bytes are saved, and "
            f"jetool undo {database} restores them",
        )
    elif facts.can_start == NO:
        yield Step(command=f"jetool recover {database} -n", purpose="what recovery needs and does not find", risk=READS)
