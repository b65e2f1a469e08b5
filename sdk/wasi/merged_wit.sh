#!/usr/bin/env bash
# Writes a WIT folder with the contract and the parts of WASI that an SDK uses, in a world named `imports`.
#   merged_wit.sh FOLDER WORLD…     the worlds are those of world.wit in this folder
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
wit=$1
shift

cp -r "$root/wit/deps" "$wit/deps"
rm -rf "$wit"/deps/wasi-*  # sdk/wasi has these interfaces whole
cp -r "$root"/sdk/wasi/deps/* "$wit/deps/"
mkdir "$wit/deps/inferlet" "$wit/deps/wasi"
cp "$root"/wit/*.wit "$wit/deps/inferlet/"
cp "$root"/sdk/wasi/*.wit "$wit/deps/wasi/"
{
  echo "package pie:sdk;"
  echo "world imports {"
  echo "  include pie:inferlet/imports;"
  printf '  include pie:wasi/%s;\n' "$@"
  echo "}"
} > "$wit/world.wit"
