"""The application that an environment belongs to, and its answers: group, node, journals, and losses by name."""

from __future__ import annotations

import uuid
from typing import Final, NamedTuple

from engine.contents.base import Contents
from engine.contents.journals import FRONTENDS, is_frontend, product_of
from engine.contents.nosql import NOSQL
from engine.contents.opendj import OPENDJ
from engine.contents.registry import AUTO, recognise
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.diagnosis.frontend import FrontendFacts, look_at_frontend
from engine.diagnosis.losses import of_journals, of_records
from engine.diagnosis.record import FRONTEND, LDAP, OTHER, PLAIN, DiagnosisOptions, LostName, LostNames
from engine.diagnosis.record import NOSQL as OF_NOSQL
from engine.errors import JetoolError
from engine.events import SILENT, Listener
from engine.format.entry.db_tree import DbTree
from engine.inspect.contents import DecodingPlan, EnvironmentSource, decoding_of, sample_log
from engine.log.files import LogFiles
from engine.log.scan import scan_log
from engine.log.tail import Tail
from engine.rep.group import Membership, committed_members
from engine.storage.base import Storage

_UNSIGNED: Final = (1 << 64) - 1
_PLAIN_TITLE: Final = "JE environment of an unknown application"


class ApplicationFacts(NamedTuple):
    """What is known of the application.

    Attributes:
        kind: of ``engine.diagnosis.record.APPLICATIONS``.
        members: the replication group; None without one, or if it cannot be read.
        frontend: None for other applications.
        lost: what recovery does not read, by name.
        broken: committed transactions among it with a record in the damaged bytes.
        plan: decodes its records; None if the application is not known.
        problem: why the environment cannot be opened for reading; empty if it can be.
    """

    kind: str
    title: str
    members: Membership | None
    frontend: FrontendFacts | None
    lost: tuple[LostName, ...]
    broken: int
    plan: DecodingPlan | None
    problem: str

    @property
    def group(self) -> str | None:
        """Name of the group."""
        return None if self.members is None else self.members.group.name

    @property
    def group_uuid(self) -> str | None:
        """UUID of the group."""
        return None if self.members is None else uuid_of(self.members)

    @property
    def node(self) -> str | None:
        """Name of the node: that of ``ROLE``, or the only member of the group."""
        if self.frontend is not None and self.frontend.files is not None and self.frontend.files.node is not None:
            return self.frontend.files.node
        names = [node.name for node in self.members.nodes if not node.removed] if self.members is not None else []
        return names[0] if len(names) == 1 else None

    @property
    def role(self) -> str | None:
        """Role of a frontend."""
        files = None if self.frontend is None else self.frontend.files
        return None if files is None else files.role


def uuid_of(members: Membership) -> str:
    """The UUID of a group."""
    stored = members.group
    return str(uuid.UUID(int=(stored.uuid_high & _UNSIGNED) << 64 | (stored.uuid_low & _UNSIGNED)))


def look_at_application(
    storage: Storage, files: LogFiles, root: DbTree | None, options: DiagnosisOptions
) -> ApplicationFacts:
    """Recover an environment in memory, and ask what it is; the log alone is asked if that fails.

    Arguments:
        storage, files: the environment.
        root: newest DbTree of a complete checkpoint; None without one.
    """
    try:
        with Environment(storage, EnvironmentConfig(read_only=True), options.listener) as env:
            return application_of(env, options)
    except JetoolError as error:
        kind, title = PLAIN, _PLAIN_TITLE
        if root is not None:
            found = files._replace(marker=None)
            kind, title = _kind(recognise(sample_log(scan_log(storage, found, marker=True), found, root)))
        return ApplicationFacts(
            kind=kind, title=title, members=None, frontend=None, lost=(), broken=0, plan=None, problem=str(error)
        )


def names_after_damage(storage: Storage, files: LogFiles, tail: Tail, listener: Listener = SILENT) -> LostNames:
    """What stands after the damage at which the log ends; empty if nothing does, or if recovery fails.

    The environment is recovered in memory only if there is something to name: not for a torn tail, which every crash
    may leave.
    """
    if not tail.holds_records:
        return LostNames()
    found = look_at_application(storage, files, None, DiagnosisOptions(listener=listener))
    return LostNames(found.lost, found.broken)


def application_of(env: Environment, options: DiagnosisOptions) -> ApplicationFacts:
    """Ask an open environment what it is.

    Raises:
        JetoolError: a record cannot be read.
    """
    source = EnvironmentSource(env)
    contents = recognise(source)
    kind, title = _kind(contents)
    plan = decoding_of(env, AUTO)
    members = committed_members(env.engine) if env.replicated else None
    frontend = None
    if is_frontend(source.names):
        frontend = look_at_frontend(env, product_of(source), members, options)
        unseen = frontend.unseen
        lost = of_journals(unseen) if unseen is not None else []
        # Destroyed journals are named by the hole that they leave.
        broken = unseen.broken_txns if unseen is not None and not unseen.destroyed else 0
        kind = FRONTEND
    else:
        lost, broken = of_records(env, plan)
    return ApplicationFacts(
        kind=kind,
        title=title,
        members=members,
        frontend=frontend,
        lost=tuple(lost),
        broken=broken,
        plan=plan,
        problem="",
    )


def _kind(contents: Contents | None) -> tuple[str, str]:
    """Kind and title of an application."""
    if contents is None:
        return PLAIN, _PLAIN_TITLE
    if contents in FRONTENDS:
        return FRONTEND, contents.title
    known = {OPENDJ.name: LDAP, NOSQL.name: OF_NOSQL}
    return known.get(contents.name, OTHER), contents.title
