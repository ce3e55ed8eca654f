"""``jetool salvage``: save as much data as possible from damaged environments."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Final

import click

from engine.diagnosis.record import LostName
from engine.errors import UsageError, plural
from engine.rescue.salvage.broken_commits import count_broken_commits
from engine.rescue.salvage.collect import Salvage
from engine.rescue.salvage.sources import SalvageSource, look_at, sources_of
from engine.storage.disk import DiskStorage
from engine.verdict import CheckVerdict
from jetool.commands.salvage.rows import FORMS, ReadEnvironment, SalvageResult, SavedDatabase
from jetool.commands.salvage.salvage_run import save
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.decode_option import decode_option, decoding_for_source
from jetool.frame.kinds import require_je
from jetool.frame.options import Run, out_option

_DECODED: Final = ("csv", "ndjson")


@command(
    "salvage",
    outputs=lambda: Outputs("document", (SalvageResult,)),
    features=("fields", "progress"),
    formats=("text", "json", "ndjson"),
    examples=(
        ("Save a damaged environment as a new environment", "jetool salvage /data/env --out /tmp/saved"),
        ("Three damaged replicas together, as JE dumps", "jetool salvage /n1 /n2 /n3 --out /tmp/saved --as je"),
        ("What would be saved and what is lost", "jetool salvage /data/env --out /tmp/saved -n"),
        ("The entries of a damaged LDAP backend", "jetool salvage /opendj/db/userRoot --out /tmp/saved --as ldif"),
    ),
    exits={
        exits.DONE: "every environment recovered, and every record was read",
        exits.REFUSED: "the output directory is not empty",
        exits.NOT_FOUND: "no environment",
        exits.UNSUPPORTED: "a log version that this program does not read",
        exits.DATA_GIVEN_UP: "written; something was damaged: the result and the side files list what is lost",
        exits.INCOMPLETE: "the directory cannot be written, or an environment is completely unreadable",
    },
)
@environment
@click.argument(
    "more",
    metavar="[ENV]...",
    type=params.DIRECTORY,
    nargs=-1,
    help="Further environments, such as other nodes of the group.",
)
@out_option("A new directory for the result.")
@click.option("--as", "kind", type=click.Choice(FORMS), default="env", help="Output format of records.  [default: env]")
@click.option("-n", "--dry-run", is_flag=True, help="Read everything, print the result, and write nothing.")
@decode_option
def salvage(run: Run, env: str, more: tuple[str, ...], to: str, kind: str, decode: str | None) -> int:
    """Save the newest committed version of every record of damaged environments, and list what is lost.

    If an environment recovers and all its records can be read, the records are those of recovery. Otherwise they are
    collected from its log: the newest legible version whose transaction committed. Uncommitted, aborted, rolled back,
    deleted and expired versions are left out. Nodes of one replication group are combined by VLSN: one node supplies
    what another has lost. If damage may hide a newer version of a record, or its deletion, the record is saved all the
    same and marked in provenance.ndjson ("confirmed": false).

    DIR gets a new environment that JE opens (or, with --as, JE dumps, CSV or NDJSON; with ldif also the entries of an
    LDAP backend in entries.ldif), and beside it provenance.ndjson (file, LSN, VLSN, transaction and time of every
    record), lost.ndjson (keys that the tree still names and whose newest version is gone), doubt.ndjson (newer versions
    whose transaction has no end in the log), orphans.ndjson (records of databases without a name) and skipped.ndjson
    (what could not be read, and why). With --decode, CSV, NDJSON, lost and doubt include records as their application
    reads them. A database whose keys are ordered by a Java class is written as a JE dump instead. Nothing is written to
    the sources.
    """
    from engine.pipeline.tables import new_directory, require_new

    if decode is not None and kind not in _DECODED:
        raise UsageError("--decode is for --as csv and --as ndjson", found=kind)
    require_new(to)
    envs = [env, *more]
    for one in envs:
        require_je(DiskStorage(one))
        if Path(to).resolve().is_relative_to(Path(one).resolve()):
            raise UsageError("the output directory is inside an environment", found=to, hint="name one elsewhere")
    sources = sources_of([look_at(one, run.listener) for one in envs])
    done = Salvage(sources, run.listener)
    names: list[LostName] = []
    broken = _broken_commits(sources)
    # There are millions of versions without cycles, so the garbage collector would scan them for nothing.
    gc.disable()
    try:
        if run.dry_run:
            result = save(done, sources, None, kind, names=names)
        else:
            with new_directory(to) as staging:
                decodings = [decoding_for_source(run, source, decode) for source in sources]
                result = save(done, sources, staging, kind, decodings, names)
    finally:
        # The end of the process frees the rest.
        gc.freeze()
        gc.enable()
    counts = done.counts
    # A source that could not be recovered counts too, because a deletion may be lost without a trace.
    gave_up = (
        counts["lost"]
        or counts["lost-nodes"]
        or done.lost_databases
        or broken
        or counts["in-doubt"]
        or any(node.problem for source in sources for node in source.nodes)
    )
    code = exits.DATA_GIVEN_UP if gave_up else exits.DONE
    verdict = exits.verdict(code, _why(done, broken, sources))
    found = _result(done, verdict, sources, result, to, kind, dry_run=run.dry_run)
    run.out.document(found._replace(lost_commits=broken, lost_names=names))
    return code


def _broken_commits(sources: list[SalvageSource]) -> int:
    """Commits with a record in damaged bytes. Not for a group, since another node may have the record, and not if
    recovery and its trees have all that is needed.
    """
    alone = [source.nodes[0] for source in sources if len(source.nodes) == 1 and source.base is None]
    return sum(count_broken_commits(DiskStorage(node.env), node.files, node.survey.damages) for node in alone)


def _why(done: Salvage, broken: int, sources: list[SalvageSource]) -> str:
    """What the verdict rests on: what is lost, or that every record was read."""
    counts = done.counts
    saved = plural(counts["records"] - counts["orphans"], "record")
    parts = [f"the database {name} is lost" for name in done.lost_databases]
    if counts["lost"]:
        parts.append(f"the newest version of {plural(counts['lost'], 'key')} is lost")
    if counts["lost-nodes"]:
        nodes = plural(counts["lost-nodes"], "node")
        parts.append(f"{nodes} of trees lost, with about {plural(counts['lost-below'], 'record')} that are not saved")
    if broken:
        parts.append(f"{plural(broken, 'commit has', 'commits have')} a record in damaged bytes")
    if counts["in-doubt"]:
        parts.append(f"{plural(counts['in-doubt'], 'newer version')} in doubt")
    if not parts:
        parts += [node.problem for source in sources for node in source.nodes if node.problem][:1]
    return f"{'; '.join(parts)}; {saved} saved" if parts else f"every record was read; {saved} saved"


def _result(
    done: Salvage,
    verdict: CheckVerdict,
    sources: list[SalvageSource],
    databases: list[SavedDatabase],
    to: str,
    kind: str,
    *,
    dry_run: bool,
) -> SalvageResult:
    counts = done.counts
    return SalvageResult(
        verdict=verdict.word,
        why=verdict.why,
        to=to,
        as_=kind,
        dry_run=dry_run,
        records=counts["records"] - counts["orphans"],
        lost=counts["lost"],
        lost_commits=0,
        lost_names=(),
        lost_nodes=counts["lost-nodes"],
        lost_below=counts["lost-below"],
        lost_databases=done.lost_databases,
        stood_in=counts["stood-in"],
        unconfirmed=counts["unconfirmed"],
        in_doubt=counts["in-doubt"],
        orphans=counts["orphans"],
        deleted=counts["deleted"],
        expired=counts["expired"],
        aborted=counts["aborted"],
        open=counts["open"],
        rolled_back=counts["rolled-back"],
        removed=counts["removed"],
        extinct=counts["extinct"],
        maybe_extinct=counts["maybe-extinct"],
        malformed=counts["malformed"],
        databases=databases,
        environments=_environments(sources, done),
    )


def _environments(sources: list[SalvageSource], done: Salvage) -> list[ReadEnvironment]:
    found: list[ReadEnvironment] = []
    for source in sources:
        for at, node in enumerate(source.nodes):
            damages = node.survey.damages
            found.append(
                ReadEnvironment(
                    environment=node.env,
                    source=source.name,
                    from_="tree" if at == source.base else "log",
                    problem=node.problem or None,
                    damages=len(damages),
                    damaged_bytes=sum(damage.length for damage in damages),
                    missing_files=len(done.absent[len(found)]),
                )
            )
    return found
