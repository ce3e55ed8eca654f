"""``jetool vlsn check`` and ``rebuild``: check the index against the log, and rebuild it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from engine.errors import plural
from engine.verify.rep_rules import REP_RULES
from engine.verify.report import ERROR, NOTE, WARNING, Finding
from jetool.commands.vlsn.group import INDEX_EXITS, has_stream, not_replicated, note_stand_alone, vlsn
from jetool.commands.vlsn.rebuild_rows import IndexCheck, Rebuilt, RebuiltIndex, rebuilt, size_of
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import WRITE_EXITS, config_of
from jetool.frame.options import Run
from jetool.output.findings import FindingRow

if TYPE_CHECKING:
    from engine.db.engine import Engine
    from jetool.commands.vlsn.stream_check import ReplicationCheck

COMMAND: Final = "vlsn rebuild"
_MENDED: Final = frozenset(rule.code for rule in REP_RULES if "vlsn rebuild" in rule.remedy)


@command(
    "check",
    parent=vlsn,
    outputs=lambda: Outputs("findings", (FindingRow,), IndexCheck),
    formats=("text", "json", "ndjson", "csv", "junit", "sarif", "prometheus"),
    features=("fields", "progress", "jobs", "cache", "order"),
    examples=(
        ("Do index and log agree", "jetool vlsn check /data/env"),
        ("For a script", "jetool vlsn check /data/env --format ndjson"),
    ),
    exits={exits.DONE: "they agree", **INDEX_EXITS, exits.FINDINGS: "they do not, or the log has gaps or damage"},
)
@environment
def vlsn_check(run: Run, env: str) -> int:
    """Check the VLSN index against the log: range, landmarks, and the entry of every VLSN that it maps.

    The index is checked as recovery leaves it, with the entries after the last checkpoint. A gap between the stored
    index and the log, with which JE refuses to open the environment, is a finding. Gaps in the stream, interrupted
    rollbacks and the group database are checked too, as by jetool verify --rep.
    """
    from engine.vlsn.vlsn_range import EMPTY_RANGE
    from jetool.commands.verify.rows import JeFindingView, why_of
    from jetool.commands.vlsn.stream_check import check_replication

    checked = check_replication(run, env)
    if checked.unread is None and not has_stream(checked.node, checked.view):
        note_stand_alone(run, env)
    counts = [sum(f.severity == severity for f in checked.findings) for severity in (ERROR, WARNING, NOTE)]
    merged = checked.view.merged
    vlsns = EMPTY_RANGE if merged is None else merged.range
    mapped = 0 if merged is None else sum(1 for _ in merged.mappings())
    code = exits.FINDINGS if counts[0] or checked.node.damaged else exits.DONE
    views = [JeFindingView(finding) for finding in checked.findings]
    if counts[0] or not checked.node.damaged:
        agree = f"index and log agree, VLSNs {vlsns.first} to {vlsns.last}; {plural(mapped, 'mapping')} compared"
        why = why_of(views, "the environment has no VLSN" if vlsns.is_empty else agree)
    else:
        why = "the log is damaged, and what it holds there was not compared: jetool verify"
    said = exits.verdict(code, why)
    found = run.out.findings([(rule.code, rule.title) for rule in REP_RULES], [env], said)
    for view in views:
        found.add(view)
    found.end(
        IndexCheck(
            verdict=said.word,
            why=said.why,
            errors=counts[0],
            warnings=counts[1],
            notes=counts[2],
            first=vlsns.first,
            last=vlsns.last,
            mappings=mapped,
        )
    )
    return code


@command(
    "rebuild",
    parent=vlsn,
    outputs=lambda: Outputs("document", (Rebuilt,)),
    features=("fields", "progress", "jobs", "lock", "cache", "order", "write"),
    examples=(
        ("What would be done", "jetool vlsn rebuild /data/env -n"),
        ("Rebuild the index; jetool undo reverts it", "jetool vlsn rebuild /data/env"),
    ),
    exits={exits.DONE: "the index agrees with the log, or would", **WRITE_EXITS},
)
@environment
@click.option("--force", is_flag=True, help="Rebuild even if index and log agree.")
def vlsn_rebuild(run: Run, env: str, force: bool) -> int:
    """Rebuild the VLSN index from the visible entries of the log.

    The environment is recovered, the records of the index are replaced in one transaction, and a checkpoint follows;
    records of the application do not change. The new index is checked against the log before the command ends. Old
    bytes are saved first, and jetool undo restores them. If index and log agree, nothing is done.
    """
    from jetool.commands.vlsn.stream_check import check_replication
    from jetool.frame.repairs import repairing

    before = check_replication(run, env)
    if before.unread is not None:
        # The records of the index cannot be replaced if its nodes or its name cannot be read.
        raise before.unread
    if not has_stream(before.node, before.view):
        raise not_replicated(env)
    # Count only findings that a new index repairs, not gaps in the log or faults of the group.
    wrong = [finding for finding in before.findings if finding.severity == ERROR and finding.code in _MENDED]
    if not wrong and not force:
        run.messages.notice("index and log agree; nothing was changed", hint="--force rebuilds the index anyway")
        run.out.document(rebuilt(env, wrong, before.view.merged, None, dry_run=run.dry_run))
        return exits.DONE
    with repairing(run, env, COMMAND, config_of(run, rebuild_vlsn_index=True)) as repair:
        # Check the new index while the environment is open, because the index belongs to the engine.
        made, disagrees = _look(repair.environment.engine, before)
    made = made._replace(backup=repair.backup, saved_bytes=repair.saved_bytes)
    run.out.document(rebuilt(env, wrong, before.view.merged, made, dry_run=run.dry_run))
    if disagrees:
        run.messages.warning(
            f"the new index still disagrees with the log: {disagrees[0].message}",
            file=env,
            hint=f"jetool verify {env}",
        )
        return exits.INCOMPLETE
    return exits.DONE


def _look(engine: Engine, before: ReplicationCheck) -> tuple[RebuiltIndex, list[Finding]]:
    """The new index and the findings about it, while the environment is open."""
    from engine.verify.rep import check_merged

    index = engine.vlsn_index
    assert index is not None
    found = check_merged(engine.access, before.node.facts, index)
    wrong = [finding for finding in found if finding.severity == ERROR]
    return RebuiltIndex(index.range, *size_of(index), engine.stream_gaps, None, 0), wrong
