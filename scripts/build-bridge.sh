#!/usr/bin/env bash
# Builds bridge/ and leaves libpie_bridge.a and its three headers in a folder; called by CMake.
#
#   scripts/build-bridge.sh OUT_DIR [release|dev]
#   scripts/build-bridge.sh OUT_DIR test        runs the bridge's own tests instead
#
# The cargo target folder is in the cache, one for each compiler and checkout: cargo cannot tell the
# crates of two checkouts apart. A new one begins with links to another checkout's dependencies, so
# that only our own crates are compiled. A file in OUT_DIR is written only if its content changes,
# so ninja relinks nothing if the bridge is unchanged.
set -euo pipefail

out=${1:?usage: build-bridge.sh OUT_DIR [release|dev|test]}
profile=${2:-release}
root=$(cd "$(dirname "$0")/.." && pwd)
cache=${PIE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pie}
mkdir -p "$out" "$cache/locks"
out=$(cd "$out" && pwd)

PATH=$root/build/rust/bin:$HOME/.cargo/bin:$PATH
command -v cargo >/dev/null || { echo "cargo is missing: run make setup" >&2; exit 1; }

case $profile in
  release | test) flags=(--release) folder=release ;;
  dev) flags=() folder=debug ;;
  *) echo "unknown profile $profile: release, dev or test" >&2; exit 2 ;;
esac

# Tells `pie cache prune` that a folder of the cache is in use.
mark_used() { [ ! -d "$1" ] || touch "$1/.used"; }
short_hash() { sha256sum | cut -c1-16; }
export CARGO_TARGET_DIR
compiler=$(rustc -vV | short_hash)
CARGO_TARGET_DIR=$cache/cargo/bridge-$compiler-$(printf '%s' "$root" | short_hash)

# A hash of the library's sources. If it is unchanged, there is nothing to do.
fingerprint() {
  { echo "$profile $CARGO_TARGET_DIR" && cd "$root" &&
    find bridge text wit scripts/build-bridge.sh -type f -not -path '*/target/*' -print0 |
      sort -z | xargs -0 sha256sum; } | short_hash
}
stamp=$out/built-from
now=$(fingerprint)
headers=(pie_bridge.h pie_host_api.h pie_host_table.h)
complete() {  # complete FOLDER FILE…: whether the folder has all files
  local folder=$1 file
  shift
  for file; do [ -f "$folder/$file" ] || return 1; done
}
if [ "$profile" != test ] && complete "$out" libpie_bridge.a "${headers[@]}" &&
  [ "$(cat "$stamp" 2>/dev/null)" = "$now" ]; then
  mark_used "$CARGO_TARGET_DIR"
  exit 0
fi

# One build of this checkout at a time.
exec 9>"$cache/locks/$(basename "$CARGO_TARGET_DIR").lock"
flock -n 9 || { echo "waiting for another build of the bridge" >&2; flock 9; }

forget_lost_checkouts() {  # removes the folders of checkouts that are gone
  local folder owner
  for folder in "$cache/cargo/bridge-$compiler-"*/; do
    owner=$(cat "$folder/checkout" 2>/dev/null) || continue
    [ -d "$owner" ] || rm -rf "$folder"
  done
}
begin_with_links() {  # links what another checkout has compiled, without our own crates
  local other new=$CARGO_TARGET_DIR.new
  # A folder without the library is still being filled.
  other=$(ls -td "$cache/cargo/bridge-$compiler-"*/release/libpie_bridge.a 2>/dev/null | head -1) || true
  [ -n "$other" ] || return 0
  rm -rf "$new"
  cp -al "${other%/release/*}" "$new" 2>/dev/null || { rm -rf "$new"; return 0; }
  find "$new" \( -path '*/.fingerprint/pie-*' -o -path '*/build/pie-*' -o -name '*pie_*' \
    -o -name '*pie-*' -o -name '*.lock' -o -name .cargo-lock -o -name .used -o -name headers \) \
    -prune -exec rm -rf {} +
  mv "$new" "$CARGO_TARGET_DIR"
}
if [ ! -d "$CARGO_TARGET_DIR" ]; then
  forget_lost_checkouts
  begin_with_links
fi
mkdir -p "$CARGO_TARGET_DIR"
printf '%s' "$root" >"$CARGO_TARGET_DIR/checkout.new"
mv "$CARGO_TARGET_DIR/checkout.new" "$CARGO_TARGET_DIR/checkout"
mark_used "$CARGO_TARGET_DIR"

# The headers live with cargo's own record of having made them.
header_dir=$CARGO_TARGET_DIR/headers
mkdir -p "$header_dir"
export PIE_BRIDGE_HEADER=$header_dir/pie_bridge.h

if [ "$profile" = test ]; then
  # The generator is tested apart: in one run its dependencies would change the features of
  # wasmtime's, and wasmtime would be compiled a second time.
  for crates in "-p pie-bridge -p pie-text" "-p pie-hostgen"; do
    # shellcheck disable=SC2086 # several words
    cargo test --manifest-path "$root/bridge/Cargo.toml" --locked --quiet "${flags[@]}" $crates --lib
  done
  exit 0
fi
cargo build --manifest-path "$root/bridge/Cargo.toml" --locked --quiet "${flags[@]}"
if ! complete "$header_dir" "${headers[@]}"; then
  touch "$root/bridge/build.rs"  # a header was cleaned away; only a rerun brings it back
  cargo build --manifest-path "$root/bridge/Cargo.toml" --locked --quiet "${flags[@]}"
fi

put() {  # put FROM TO: copies a file if its content differs; compares size and time first
  local from=$1 to=$2 seen
  seen=$(stat -c '%i %s %y' "$from")
  [ -f "$to" ] && [ "$(cat "$to.from" 2>/dev/null)" = "$seen" ] && return
  if ! cmp -s "$from" "$to"; then
    cp --reflink=auto "$from" "$to.new"
    mv -f "$to.new" "$to"
  fi
  echo "$seen" >"$to.from"
}
put "$CARGO_TARGET_DIR/$folder/libpie_bridge.a" "$out/libpie_bridge.a"
for header in "${headers[@]}"; do put "$header_dir/$header" "$out/$header"; done
echo "$now" >"$stamp"
