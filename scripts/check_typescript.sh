#!/usr/bin/env bash
# Runs tsc over every tsconfig.json of the tree, and over programs that see only the declarations of the
# SDK and the client, with the compiler that setup installed.
set -euo pipefail

cd "$(dirname "$0")/.."
modules=$(PYTHONPATH=bakery/src python3 -c 'from bakery import toolchain; print(toolchain.node_modules())')
[ -x "$modules/.bin/tsc" ] || { echo "tsc is missing: run make setup" >&2; exit 1; }
find sdk inferlets bench -name tsconfig.json -not -path '*/node_modules/*' | sort |
  while read -r config; do
    echo "typescript: $config"
    "$modules/.bin/tsc" --noEmit -p "$config"
  done
echo "typescript: client/javascript"
PYTHONPATH=bakery/src:scripts python3 scripts/build_clients.py javascript >/dev/null
scripts/check_declarations.sh "$modules" build/clients/javascript
