#!/bin/sh
# Two backups of an environment, a mistake between them, and back to the transaction before it, beside and in place.
#
#     examples/backup.sh examples/users.csv
set -eu
source=$1
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
env=$room/env
backups=$room/backups

say() { printf '\n$ jetool %s\n' "$*" | sed "s|$room/||g"; jetool "$@" >"$room/out"; sed "s|$room/||g" "$room/out"; }

jetool create "$env" --db users >/dev/null
tail -n +2 "$source" | while IFS=, read -r name age _; do jetool put "$env" --db users "$name" "$age" >/dev/null; done
say backup "$env" "$backups" --fields files,copied_files,databases
# The transaction to come back to.
good=$(jetool txns "$env" --fate committed --format ndjson | sed -n 's/.*"txn":\([0-9]*\),.*/\1/p' | tail -1)
jetool put "$env" --db users alice 300 >/dev/null
jetool delete "$env" --db users bob >/dev/null
say backup "$env" "$backups" --fields files,databases
say backup list "$backups" --format ndjson --fields source,files,databases
say backup verify "$backups" --format ndjson --fields ok,files,records
say restore "$backups" "$room/before" --to-txn "$good" --fields point,commits_left_out,files
say scan "$room/before" --db users --key-format utf8 --data-format utf8
say restore "$backups" "$env" --to-txn "$good" --delta --yes --quiet --fields environment,copied_files
say scan "$env" --db users --key-format utf8 --data-format utf8
say backup prune "$backups" --keep 1l --dry-run --fields removed,kept
