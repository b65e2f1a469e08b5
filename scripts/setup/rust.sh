# The Rust compiler, which builds the bridge and Rust inferlets. Sourced by scripts/setup.sh.
#
# A Rust that is installed already is used if it is new enough and has the target for inferlets, or
# if its rustup can add that target. Otherwise a toolchain of the minimum version is installed into
# the cache, and rust/ of the state folder links to it. The user's own Rust stays as it is. Whatever runs cargo
# looks there first: the Makefile, scripts/build-bridge.sh and the launcher of bakery.

rust_target=wasm32-wasip2
rustup_version=1.28.2   # downloaded where apt offers no rustup; the hashes are those published with it
declare -A rustup_hash=(
  [x86_64]=20a06e644b0d9bd2fbdbfd52d42540bdde820ea7df86e92e533c073da0cdd43c
  [aarch64]=e3853c5a252fca15252d07cb23a1bdd9377a8c6f3efa01531109281ae47f841c
)
rustup_command="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y -t $rust_target"

rust_version() { rustc --version 2>>"$log" | cut -d' ' -f2; }

is_new_enough() {
  local version
  version=$(rust_version) && at_least "${version%%-*}" "$rust_minimum" &&
    cargo --version >/dev/null 2>>"$log"
}

builds_inferlets() {
  local libraries
  libraries=$(rustc --print target-libdir --target $rust_target 2>>"$log") &&
    compgen -G "$libraries/libstd-*.rlib" >/dev/null
}

# own_rustup ARGUMENT…: runs rustup on the toolchains in the cache.
own_rustup() {
  logged env RUSTUP_HOME="$cache/rustup" "$rustup" "$@"
}

# Sets $rustup to a program that can install toolchains.
find_rustup() {
  rustup=$cache/rustup-$rustup_version/rustup
  [ ! -x "$rustup" ] || return 0
  if have rustup || { apt_offers rustup && as_root true 2>>"$log" && apt_install rustup; }; then
    rustup=$(command -v rustup)
  else
    download_rustup
  fi
}

# rustup-init, called by the name of rustup, is rustup itself: nothing has to be installed.
download_rustup() {
  local machine url
  machine=$(uname -m)
  [ -n "${rustup_hash[$machine]:-}" ] || return 1
  url=${RUSTUP_UPDATE_ROOT:-https://static.rust-lang.org/rustup}
  url+=/archive/$rustup_version/$machine-unknown-linux-gnu/rustup-init
  mkdir -p "${rustup%/*}"
  say rust "downloading rustup $rustup_version"
  logged python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])' \
    "$url" "$rustup.partial" || return 1
  if ! logged sha256sum --check <<<"${rustup_hash[$machine]}  $rustup.partial"; then
    rm -f "$rustup.partial"
    return 1
  fi
  chmod +x "$rustup.partial"
  mv -f "$rustup.partial" "$rustup"
}

# Installs a toolchain into the cache, once, and links rust/ of the state folder to it.
use_own_toolchain() {
  local complete=$cache/rustup/.complete-$rust_minimum
  if [ ! -e "$complete" ]; then
    find_rustup || return 1
    say rust "installing Rust $rust_minimum with $rust_target into the cache"
    own_rustup toolchain install "$rust_minimum" --profile minimal --no-self-update \
      -t $rust_target || return 1
    touch "$complete"
  fi
  ln -sfn "$cache/rustup/toolchains/$rust_minimum-$(uname -m)-unknown-linux-gnu" "$state/rust"
  hash -r
  is_new_enough && builds_inferlets
}

# Without the target, the engine can still be built. Debian's Rust for browsers is often new enough.
use_rust_without_target() {
  rm -f "$state/rust"
  hash -r
  is_new_enough && return
  apt_offers rustc-web && install_packages rustc-web cargo-web && is_new_enough
}

setup_rust() {
  if have rustup && is_new_enough && ! builds_inferlets && [ ! -e "$state/rust" ]; then
    say rust "adding the target $rust_target"
    logged rustup target add $rust_target || true
  fi
  if { is_new_enough && builds_inferlets; } || use_own_toolchain; then
    [ "$phase" != check ] || setup_rust_checkers
    say rust "$(rust_version) with $rust_target"
  elif use_rust_without_target; then
    say rust "$(rust_version) without $rust_target"
    warn "Rust inferlets cannot be built: this Rust lacks the target $rust_target, and a Rust that has
    it could not be downloaded. The engine and inferlets in other languages can be built. Run:
      $rustup_command"
  else
    fault "Rust $rust_minimum is needed, and could not be installed (see $log). Run:
      $rustup_command"
  fi
}

setup_rust_checkers() {
  if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then return 0; fi
  say rust "adding rustfmt and clippy"
  if [ -e "$state/rust" ]; then
    find_rustup && own_rustup component add --toolchain "$rust_minimum" rustfmt clippy && return
  elif have rustup; then
    logged rustup component add rustfmt clippy && return
  fi
  warn "make check needs rustfmt and clippy, which could not be installed (see $log). Run again:
      scripts/setup.sh check"
}
