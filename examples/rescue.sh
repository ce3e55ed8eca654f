#!/bin/sh
# The night when something is broken: a damaged record, what is lost with it, and a new environment with all the others.
#
#     examples/rescue.sh examples/users.csv
set -eu
source=$1
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
env=$room/env

# Exit codes above 0 say what was found; here that is the point.
say() {
    printf '\n$ jetool %s\n' "$*" | sed "s|$room/||g"
    code=0
    jetool "$@" >"$room/out" 2>/dev/null || code=$?
    sed "s|$room/||g" "$room/out"
    [ "$code" = 0 ] || printf '(exit %s)\n' "$code"
}

jetool create "$env" --db users >/dev/null
tail -n +2 "$source" | while IFS=, read -r name age _; do jetool put "$env" --db users "$name" "$age" >/dev/null; done
jetool put "$env" --db users dave 'some words that no slot of a node would hold' >/dev/null
jetool put "$env" --db users erin 'some more words that no slot of a node would hold' >/dev/null
say scan "$env" --db users --as-of commits:-1 --key-format utf8 --data-format utf8

# One byte of dave's record changes.
file=$(ls "$env"/*.jdb | tail -1)
at=$(grep -abo 'some words' "$file" | head -1 | cut -d: -f1)
printf S | dd of="$file" bs=1 seek="$at" conv=notrunc status=none

say salvage "$env" --out "$room/saved" --fields records,lost,in_doubt
say scan "$room/saved/env" --db users --key-format utf8 --data-format utf8
printf 'com.sleepycat.je.EnvironmentFailureException: (JE 18.3.20) LOG_CHECKSUM: Checksum invalid on read\n' >"$room/je.info.0"
say explain "$room/je.info.0" --json
