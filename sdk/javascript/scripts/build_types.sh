#!/usr/bin/env bash
# Writes the declarations (.d.ts) that package.json names, so that a program's own tsc does not check
# the SDK's sources by the program's settings.
#
#   build_types.sh [OUT] [TSC]    by default types/ of this package, and the tsc on the PATH
set -euo pipefail

sdk=$(cd "$(dirname "$0")/.." && pwd)
out=$(realpath -m "${1:-$sdk/types}")
"${2:-tsc}" -p "$sdk" --noEmit false --declaration --emitDeclarationOnly --rootDir "$sdk" --outDir "$out"
cp -r "$sdk/generated" "$out/"
cp "$sdk"/src/files/*.d.ts "$out/src/files/"
# tsc leaves out the references of index.ts, which name the modules of the engine and of Node.
{
  grep '^/// <reference ' "$sdk/src/index.ts"
  cat "$out/src/index.d.ts"
} >"$out/index.new"
mv "$out/index.new" "$out/src/index.d.ts"
