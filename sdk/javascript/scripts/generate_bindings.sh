#!/usr/bin/env bash
# Regenerates ../generated: types of the `pie:…` and `wasi:…` modules, from wit/ and sdk/wasi/.
set -euo pipefail

sdk=$(cd "$(dirname "$0")/.." && pwd)
root=$(cd "$sdk/../.." && pwd)
modules=$(PYTHONPATH=$root/bakery/src python3 -c 'from bakery import toolchain; print(toolchain.node_modules())')
[ -x "$modules/.bin/jco" ] || { echo "jco is missing: run make setup" >&2; exit 1; }

wit=$(mktemp -d)
trap 'rm -rf "$wit"' EXIT
"$root/sdk/wasi/merged_wit.sh" "$wit" client files
rm -rf "$sdk/generated"
"$modules/.bin/jco" guest-types "$wit" --world-name imports --out-dir "$sdk/generated" --quiet
