#!/usr/bin/env bash
# Builds an inferlet that completes text and runs it on the default model.
#
#   scripts/demo.sh PROMPT
#
# The inferlet is the Rust one. On a machine whose Rust cannot build inferlets it is the C++ one,
# whose compiler setup installs from PyPI.
set -euo pipefail

prompt=${1:?usage: demo.sh PROMPT}
cd "$(dirname "$0")/.."
libraries=$(rustc --print target-libdir --target wasm32-wasip2 2>/dev/null || true)
if compgen -G "$libraries/libstd-*.rlib" >/dev/null; then language=rust; else language=cpp; fi
build/venv/bin/python scripts/build_guests.py "text-completion-$language"
echo "running inferlets/text-completion/$language on the default model"
exec build/bin/pie run --path "build/guests/text-completion-$language.wasm" \
  --manifest "inferlets/text-completion/$language/Pie.toml" --stdout -- --prompt "$prompt"
