#!/bin/sh
# jetool in one file, to copy to a server without a network: any Python from 3.11 on runs it. It is the pure build.
#
#     examples/zipapp.sh /tmp/jetool.pyz
set -eu
target=$1
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
JETOOL_PURE=1 python3 -m pip install --quiet --no-compile --target "$room/app" . 2>"$room/pip" || { cat "$room/pip" >&2; exit 1; }
# The programs in bin/ and the man pages cannot be used from inside an archive.
rm -rf "$room/app/bin" "$room/app/share"
# Compiled modules beside their sources: the Python that made them starts three times as fast, others read the sources.
python3 -m compileall -q -b "$room/app"
python3 -m zipapp "$room/app" --main jetool.__main__:main --python "/usr/bin/env python3" --compress --output "$target"
"$target" --version | sed -n 's/^jetool [^ ]* /jetool in one file: /p'
