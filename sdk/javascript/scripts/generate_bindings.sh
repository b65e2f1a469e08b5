#!/usr/bin/env bash
# Regenerates ../generated: types of the `pie:…` and `wasi:…` modules, from wit/.
set -euo pipefail

sdk=$(cd "$(dirname "$0")/.." && pwd)
root=$(cd "$sdk/../.." && pwd)
modules=$(PYTHONPATH=$root/bakery/src python3 -c 'from bakery import toolchain; print(toolchain.node_modules())')
[ -x "$modules/.bin/jco" ] || { echo "jco is missing: run make setup" >&2; exit 1; }
rm -rf "$sdk/generated"
"$modules/.bin/jco" guest-types "$root/wit" --world-name imports --out-dir "$sdk/generated" --quiet
