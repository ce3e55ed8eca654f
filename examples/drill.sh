#!/bin/sh
# A drill from an empty directory to a recovered environment: create, load, checkpoint, work in flight, crash, recover.
#
#     examples/drill.sh examples/users.dump
set -eu
dump=$1
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
env=$room/env

say() { printf '\n$ jetool %s\n' "$*" | sed "s|$room/||g"; jetool "$@"; }

say create "$env" --db users --fields dbs
say load "$env" "$dump" --fields db,records
say checkpoint "$env" --fields ins,bins,deltas
say put "$env" --db users dave "never committed" --no-commit --fields db,txn
say recover "$env" --dry-run --fields commits_lost,txns_undone
say crash "$env" --at type:CkptEnd --out "$room/crashed" --fields mode,type
say recover "$room/crashed" --quiet --fields commits_lost,ckpt_end_lsn
say scan "$room/crashed" --db users --key-format utf8 --data-format utf8
say dump-log "$room/crashed" --type ckpt --tail 4 --format csv --fields type,provisional
