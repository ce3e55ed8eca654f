#!/bin/sh
# Two nodes of a replication group on this machine: the second joins, follows, and takes over.
#
#     examples/replicate.sh 17601 17602
set -eu
one=127.0.0.1:$1 two=127.0.0.1:$2
room=$(mktemp -d)
trap 'kill $nodes 2>/dev/null || true; wait; rm -rf "$room"' EXIT
nodes=
secret="--secret-file $room/secret"
(umask 077; head -c 32 /dev/urandom | base64 > "$room/secret")

say() { printf '\n$ jetool %s\n' "$*" | sed "s|$room/||g"; jetool "$@"; }
ask() { jetool node status $one $two $secret --format csv --fields node,role,last_vlsn 2>/dev/null; }
await() { for _ in $(seq 300); do ask | tr '\n' ' ' | grep -q "$1" && return; sleep 0.1; done; ask; exit 1; }

say create "$room/n1" --replicated --node n1 --address $one --db users --fields dbs
say put "$room/n1" dave "of the first master" --db users --fields db,txn
jetool node run "$room/n1" --node n1 --listen $one --peers $two $secret --master > /dev/null & nodes="$nodes $!"
jetool node run "$room/n2" --node n2 --listen $two --peers $one $secret > /dev/null & nodes="$nodes $!"
await 'n1,master,13 n2,replica,13'
say node status $one $two $secret --fields node,role,last_vlsn
say node transfer-master $one --to n2 $secret --fields node
await 'n1,replica,14 n2,master,14'
say node status $one $two $secret --fields node,role,last_vlsn
kill $nodes
wait
nodes=
say diff "$room/n1" "$room/n2" --fields relation,same
say scan "$room/n2" --db users --key-format utf8 --data-format utf8
