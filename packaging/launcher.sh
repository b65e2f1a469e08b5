#!/bin/sh
# Installed as bin/bakery and bin/pie-client: runs the tool that `pie setup` prepared for this user.
self=$(readlink -f -- "$0")
prefix=$(dirname -- "$(dirname -- "$self")")
cache=${PIE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pie}
# scripts/setup.sh computes the same name.
state=$cache/installed/$(printf '%s' "$prefix/share/pie" | sha256sum | cut -c1-16)
tool=$state/bin/$(basename -- "$self")
[ -x "$tool" ] || { echo "error: ${self##*/} is not set up for this user yet. Run: $prefix/bin/pie setup" >&2; exit 1; }
touch "$state/.used" 2>/dev/null || true # `pie cache prune` deletes what was not used for a month
exec "$tool" "$@"
