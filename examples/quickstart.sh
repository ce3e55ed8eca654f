#!/bin/sh
# From a CSV file to a recovered environment: create, load on Spark, checkpoint, work in flight, crash, recover.
#
#     examples/quickstart.sh examples/users.csv
set -eu
source=$1
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
env=$room/env

say() { printf '\n$ jetool %s\n' "$*" | sed "s|$room/||g"; jetool "$@"; }

say create "$env" --db users --fields dbs
say load "$env" "$source" --engine spark --db users --key name --value age --fields db,read,records,rejected
say put "$env" --db users dave 19 --fields db,key
say checkpoint "$env" --fields ins,bins,deltas
say put "$env" --db users erin "never committed" --no-commit --fields db,txn
say recover "$env" --dry-run --fields commits_lost,txns_undone
say crash "$env" --at type:CkptEnd --out "$room/crashed" --fields mode,type
say recover "$room/crashed" --quiet --fields commits_lost,ckpt_end_lsn
say scan "$room/crashed" --db users --key-format utf8 --data-format utf8
say dump-log "$room/crashed" --db users --type in --format csv --fields lsn,type,level,provisional
