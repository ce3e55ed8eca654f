#!/bin/sh
# A check for cron or a monitoring agent: one word, and the exit code of jetool verify.
#
#     examples/alert_on_damage.sh tests/golden/je-17/txn-crash
jetool verify "$1" --quiet --format prometheus >/dev/null
code=$?
case $code in
    0) echo "whole" ;;
    1) echo "damaged: copy the environment before anything opens it" ;;
    *) echo "not checked: jetool ended with $code" ;;
esac
exit $code
