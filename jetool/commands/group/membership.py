"""``jetool group remove``, ``delete`` and ``update-address``: changes of the members of a running group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, NamedTuple

import click

from engine.errors import RefusedError, plural
from engine.fields import Bool, Choices, Int, Text, record
from engine.format.entry.group_db import NODE_TYPES
from engine.rep.client.connection import Address
from engine.rep.membership import Change, MembershipChange, change_member, plan_change
from engine.rep.peers import address_text
from jetool.commands.group.command_group import group
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command
from jetool.frame.networks import network_of
from jetool.frame.options import Run

_EXITS: Final = {
    exits.DONE: "the master has changed the member, and replicas have acknowledged it",
    exits.NOT_FOUND: "no node answers",
    exits.REFUSED: (
        "no master, no such member, the member is the master or runs, the master refuses, or --yes is missing"
    ),
    exits.INCOMPLETE: "the master has not answered: the member may have been changed",
}
_VERBS: Final = {Change.REMOVE: "remove", Change.DELETE: "delete", Change.MOVE: "move"}


@record("membership")
class MembershipResult(NamedTuple):
    """A change of a member."""

    group: Annotated[Text, "the group"]
    master: Annotated[Text, "the node that changes it"]
    node: Annotated[Text, "the member"]
    type: Annotated[Text, "its type", Choices(NODE_TYPES)]
    change: Annotated[Text, "what is done", Choices([one.value for one in Change])]
    address: Annotated[Text, "its address before"]
    new_address: Annotated[Text | None, "its address afterwards; null unless it is moved"]
    electable: Annotated[Int, "electable members afterwards"]
    majority: Annotated[Int, "how many of them an election needs, and a commit under the policy simple majority"]
    running: Annotated[Int, "how many of them answer now"]
    dry_run: Annotated[Bool, "nothing was changed"]


def _shared(callback: Callable[..., int]) -> Callable[..., int]:
    """Add what the three commands share."""
    for option in (
        click.option(
            "--timeout",
            type=click.FloatRange(0.1, 3600),
            default=10.0,
            metavar="S",
            help="Longest wait for each answer, in seconds.  [default: 10]",
        ),
        click.option("--node", "name", required=True, metavar="NAME", help="The member."),
        click.argument("address", type=params.HOST, help="Address of a node of the group."),
    ):
        callback = option(callback)
    return callback


@command(
    "remove",
    parent=group,
    outputs=lambda: Outputs("document", (MembershipResult,)),
    features=("fields", "tls", "consent"),
    examples=(
        ("Preview: the member, and the majority without it", "jetool group remove fe1:9010 --node fe3 -n"),
        ("A member that is gone for good", "jetool group remove fe1:9010 --node fe3 --yes"),
    ),
    exits=_EXITS,
)
@_shared
def group_remove(run: Run, address: Address, name: str, timeout: float) -> int:
    """Remove a member from a running group, as DbGroupAdmin -removeMember does.

    Any node of the group, JE or jetool, names the master, which does it. The member loses its vote, and no node of this
    name joins the group again. The node itself should be stopped. Needs --yes.
    """
    return _changed(run, address, name, Change.REMOVE, timeout)


@command(
    "delete",
    parent=group,
    outputs=lambda: Outputs("document", (MembershipResult,)),
    features=("fields", "tls", "consent"),
    examples=(
        ("Preview", "jetool group delete fe1:9010 --node fe3 -n"),
        ("Before a new, empty node gets its name", "jetool group delete fe1:9010 --node fe3 --yes"),
    ),
    exits=_EXITS,
)
@_shared
def group_delete(run: Run, address: Address, name: str, timeout: float) -> int:
    """Delete a member of a running group and its record, as DbGroupAdmin -deleteMember does.

    Unlike after jetool group remove, a node of this name can join again. The member must be stopped, and its
    environment must not be used again: start a new node with an empty directory. As in JE, a member that was removed
    before cannot be deleted. Needs --yes.
    """
    return _changed(run, address, name, Change.DELETE, timeout)


@command(
    "update-address",
    parent=group,
    outputs=lambda: Outputs("document", (MembershipResult,)),
    features=("fields", "tls", "consent"),
    examples=(
        ("Preview", "jetool group update-address fe1:9010 --node fe3 --new-address fe9:9010 -n"),
        (
            "A member that moves to another machine",
            "jetool group update-address fe1:9010 --node fe3 --new-address fe9:9010 --yes",
        ),
    ),
    exits=_EXITS,
)
@_shared
@click.option("--new-address", "to", type=params.HOST, required=True, metavar="HOST:PORT", help="The new address.")
def group_update_address(run: Run, address: Address, name: str, timeout: float, to: Address) -> int:
    """Change the address of a member of a running group, as DbGroupAdmin -updateAddress does.

    The member must be stopped; start it at the new address afterwards, with its environment. Needs --yes.
    """
    return _changed(run, address, name, Change.MOVE, timeout, to)


def _changed(run: Run, asked: Address, name: str, change: Change, timeout: float, to: Address | None = None) -> int:
    network = network_of(run)
    plan = plan_change(network, asked, name, change, timeout, to)
    before = plan.before
    if before.running < before.majority:
        answers = "answers" if before.running == 1 else "answer"
        run.messages.warning(
            f"{plural(before.running, 'electable member')} {answers}, of {before.electable}",
            consequence=f"the master needs {before.majority} of them to acknowledge the change",
            hint="start the others first",
        )
    elif plan.after.running < plan.after.majority:
        run.messages.warning(
            f"afterwards {plan.after.running} of {plural(plan.after.electable, 'electable member')} would answer",
            consequence=f"elections, and commits under the policy simple majority, need {plan.after.majority}",
            hint="start the others first",
        )
    if not run.dry_run:
        if not run.yes:
            raise RefusedError(
                f"{plan.master} would {_VERBS[change]} {name}, {_article(plan)} at {_address(plan)}",
                consequence="nothing was changed",
                hint="preview it with -n; add --yes to do it",
            )
        change_member(network, plan, timeout)
    run.out.document(
        MembershipResult(
            group=plan.group,
            master=plan.master,
            node=name,
            type=NODE_TYPES[plan.member.type],
            change=change.value,
            address=_address(plan),
            new_address=None if to is None else address_text(to),
            electable=plan.after.electable,
            majority=plan.after.majority,
            running=plan.after.running,
            dry_run=run.dry_run,
        )
    )
    return exits.DONE


def _address(plan: MembershipChange) -> str:
    return address_text((plan.member.host, plan.member.port))


def _article(plan: MembershipChange) -> str:
    kind = NODE_TYPES[plan.member.type]
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind} member"
