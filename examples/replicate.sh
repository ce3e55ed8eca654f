#!/bin/sh
# Two nodes of a replication group on this machine: the second joins, votes, acknowledges, and takes over.
#
#     examples/replicate.sh 17601 17602
set -eu
one=127.0.0.1:$1 two=127.0.0.1:$2
room=$(mktemp -d)
trap 'kill $nodes 2>/dev/null || true; wait; rm -rf "$room"' EXIT
nodes=

say() { printf '\n$ jetool %s\n' "$*" | sed "s|$room/||g"; jetool "$@"; }
ask() { jetool group show $two --format ndjson 2>/dev/null; }
await() { for _ in $(seq 300); do ask | tr -d '\n' | grep -q "$1" && return; sleep 0.1; done; ask; exit 1; }

say create "$room/n1" --replicated --node n1 --address $one --db users --fields dbs
say put "$room/n1" dave "written before" --db users --fields db,txn
member="--node-type electable --priority 1"
jetool node run "$room/n1" --node n1 --listen $one --join $two $member > /dev/null & nodes="$nodes $!"
jetool node run "$room/n2" --node n2 --listen $two --join $one $member > /dev/null & nodes="$nodes $!"
await '"n1".*"MASTER".*"n2".*"REPLICA"'
say group show $two --fields name,master
say node put $two erin "through the replica" --db users --fields master,records
say node transfer-master $two --to-node n2 --timeout 60 --yes --fields master,node
await '"n1".*"REPLICA".*"n2".*"MASTER"'
say group show $two --fields name,master
kill $nodes
wait
nodes=
say diff "$room/n1" "$room/n2" --fields relation,same
say scan "$room/n2" --db users --key-format utf8 --data-format utf8
