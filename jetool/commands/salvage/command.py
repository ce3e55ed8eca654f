"""``jetool salvage``: save as much data as possible from damaged environments."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Final

import click

from engine.errors import UsageError
from engine.rescue.salvage.collect import Salvage
from engine.rescue.salvage.sources import SalvageSource, look_at, sources_of
from engine.storage.disk import DiskStorage
from jetool.commands.salvage.rows import FORMS, ReadEnvironment, SalvageResult, SavedDatabase
from jetool.commands.salvage.salvage_run import save
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.decode_option import decode_option, decoding_for_source
from jetool.frame.kinds import require_je
from jetool.frame.options import RenamedOption, Run

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
@click.option(
    "--out",
    "to",
    cls=RenamedOption,
    old=("--to",),
    required=True,
    type=click.Path(),
    metavar="DIR",
    help="A new directory for the result.",
)
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
    # There are millions of versions without cycles, so the garbage collector would scan them for nothing.
    gc.disable()
    try:
        if run.dry_run:
            result = save(done, sources, None, kind)
        else:
            with new_directory(to) as staging:
                decodings = [decoding_for_source(run, source, decode) for source in sources]
                result = save(done, sources, staging, kind, decodings)
    finally:
        # The end of the process frees the rest.
        gc.freeze()
        gc.enable()
    run.out.document(_result(done, sources, result, to, kind, dry_run=run.dry_run))
    counts = done.counts
    # A source that could not be recovered counts too, because a deletion may be lost without a trace.
    gave_up = (
        counts["lost"]
        or counts["lost-nodes"]
        or done.lost_databases
        or counts["in-doubt"]
        or any(node.problem for source in sources for node in source.nodes)
    )
    return exits.DATA_GIVEN_UP if gave_up else exits.DONE


def _result(
    done: Salvage, sources: list[SalvageSource], databases: list[SavedDatabase], to: str, kind: str, *, dry_run: bool
) -> SalvageResult:
    counts = done.counts
    return SalvageResult(
        to=to,
        as_=kind,
        dry_run=dry_run,
        records=counts["records"] - counts["orphans"],
        lost=counts["lost"],
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
