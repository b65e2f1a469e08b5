#!/usr/bin/env bash
# Runs rustfmt, clippy and rustdoc over the given Cargo.toml files. It builds in its own folders of the
# cache. rustdoc fails on a public name of the SDK or the client without documentation.
set -euo pipefail

status=0
cache=${PIE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pie}
for manifest in "$@"; do
  echo "rust: $manifest"
  cargo fmt --all --manifest-path "$manifest" --check
  crate=$(dirname "$manifest")
  target=()
  # The SDK compiles only for components. The other crates run on this machine.
  [ "$crate" != sdk/rust ] || target=(--target wasm32-wasip2)
  CARGO_TARGET_DIR="$cache/cargo/clippy-${crate//\//-}" \
    cargo clippy --manifest-path "$manifest" --quiet --workspace "${target[@]}" -- -D warnings ||
    status=1
  CARGO_TARGET_DIR="$cache/cargo/clippy-${crate//\//-}" RUSTDOCFLAGS="-D warnings" \
    cargo doc --manifest-path "$manifest" --quiet --workspace --no-deps "${target[@]}" || status=1
  touch "$cache/cargo/clippy-${crate//\//-}/.used"  # for `pie cache prune`
done
exit $status
