"""Makes one node a new group, as JE's DbResetRepGroup does (R-UTIL-45).

Use it if the other members are lost, or for a copy that becomes independent. The node becomes the only member of a
group with a new identity; its records stay. In this order:

1. Transactions that the old master left open are aborted, in the stream.
2. A new log file, and a checkpoint: earlier parts of the log are never sent to a replica.
3. One transaction removes all members and puts the new group and its one member in their place. Node ids continue from
   the old group, so that an id in the log never means two nodes.
4. The VLSN index is cut after the last VLSN of the old group: a node of the new group cannot replay the old stream, and
   gets the log files instead (network restore).

Example: old group of three, last node id 3, stream 1..278 in file 0. New: node id 4, the transaction is VLSN 279..284
in file 1, range 279..284.
"""

from __future__ import annotations

from typing import NamedTuple

from engine.db.environment import Environment
from engine.db.stream import AloneGate
from engine.errors import RefusedError
from engine.format.entry.group_db import GROUP_KEY, encode_group, encode_group_node
from engine.format.lsn import file_of
from engine.format.tuples import string_key
from engine.rep.group import (
    DATABASE_NAME,
    ELECTABLE,
    LEAST_JE_VERSION,
    Membership,
    check_name,
    committed_members,
    committed_records,
    described,
    new_group,
    release_of,
)
from engine.rep.stream import new_term


class ResetGroup(NamedTuple):
    """What a reset did.

    Attributes:
        before, after: the old and the new group; ``before`` is None if its records could not be read.
        first_vlsn: the first VLSN of the new group; the index begins with it.
    """

    before: Membership | None
    after: Membership
    first_vlsn: int


def reset_group(env: Environment, group: str, node: str, host: str, port: int) -> ResetGroup:
    """Make a node the only member of a new group, and lead it.

    Arguments:
        env: a replicated environment, open for writing, detached.
        group, node: the new names.
        host, port: where other members will find the node.

    Raises:
        RefusedError: the environment is not replicated, or has no stream yet. UsageError: a name is empty or too long.
    """
    check_name("group", group)
    check_name("node", node)
    engine = env.engine
    index, writer = engine.vlsn_index, engine.writer
    if index is None or writer is None or index.range.is_empty:
        raise RefusedError(
            "the environment has no replication stream", file=env.home, hint="jetool create --replicated"
        )
    before = committed_members(engine)
    last_id = max((member.id for member in before.nodes), default=0) if before is not None else 0
    last_id = max(last_id, before.group.last_node_id if before is not None else 0)
    engine.lead(AloneGate(index, last_id + 1), new_term(engine))
    # The new file begins before the checkpoint, so that recovery of the new group begins in a file without the old
    # stream.
    writer.force_new_file()
    env.checkpoint(force=True)
    # The aborts of step 1 still belong to the old group.
    last_old = index.range.last
    fresh = new_group(group, last_id, LEAST_JE_VERSION)
    of_one = fresh._replace(change_version=1, last_node_id=last_id + 1)
    mine = described(node, host, port, ELECTABLE, release_of(engine.log_version), engine.now_ms())
    mine = mine._replace(id=last_id + 1, change_version=1, quorum_ack=True)
    with env.open_database(DATABASE_NAME) as db, env.begin() as txn:
        db.put(string_key(GROUP_KEY), encode_group(fresh), txn)
        for key, _ in committed_records(engine):
            if key != string_key(GROUP_KEY):
                db.delete(key, txn)
        db.put(string_key(GROUP_KEY), encode_group(of_one), txn)
        db.put(string_key(node), encode_group_node(mine), txn)
    # VLSNs enter the index outside the log write latch (R-LOG-6), and the cut needs all of them.
    index.await_consistency()
    index.truncate_head(last_old, file_of(index.lte_lsn(last_old + 1)))
    return ResetGroup(before, Membership(of_one, (mine,)), index.range.first)
