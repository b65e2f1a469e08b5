"""Setup must end with a Rust that builds inferlets wherever one can be had.

Each test runs scripts/setup/rust.sh on an imagined machine: the functions that would touch the real
one (apt, downloads, the compiler) are replaced, and record what they were asked for.
"""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# $1: what apt offers. $2: how a download ends (ok, corrupt, none). $3: the Rust there is at first:
# none, or its version, with "+" if it has the target.
_MACHINE = r"""
set -euo pipefail
offered=$1 download=$2 rust=$3
cache=$PWD/cache log=$PWD/log phase=build state=build rust_minimum=1.95
mkdir -p build cache
say() { :; }
warn() { echo "warning: ${1%%:*}"; }
fault() { echo "error: ${1%%,*}"; }
have() { [ "$1" != rustup ] || [ -n "${rustup_installed:-}" ]; }
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }
as_root() { :; }
apt_offers() { [[ " $offered " == *" $1 "* ]]; }
apt_install() { echo "apt: $*"; rustup_installed=1; }
install_packages() { echo "apt: $*"; rust=1.96; }
logged() {
  case $1 in
    python3) [ "$download" != none ] && echo "rustup is ${download}" >"${!#}" ;;
    sha256sum) cat >/dev/null; [ "$download" = ok ] ;;
    env) echo "rustup: ${*:4}"; rust=1.95+ ;;
    rustup) echo "own rustup: ${*:2}"; rust=$rust+ ;;
  esac
}
rustc() {
  [ "$rust" != none ] || return 1
  if [ "$1" = --version ]; then echo "rustc ${rust%+} (hash date)"; else echo "$PWD/libraries"; fi
}
cargo() { :; }
compgen() { [[ $rust == *+ ]]; }
command() { echo /usr/bin/rustup; }
. "$ROOT/scripts/setup/rust.sh"
setup_rust
[ ! -L build/rust ] || echo "linked"
"""


@pytest.fixture
def setup_rust(tmp_path):
    def run(offered: str, download: str, rust: str) -> list[str]:
        script = tmp_path / "machine.sh"
        script.write_text(f"ROOT={ROOT}\n{_MACHINE}")
        done = subprocess.run(
            ["bash", script, offered, download, rust],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


_INSTALL = "rustup: toolchain install 1.95 --profile minimal --no-self-update -t wasm32-wasip2"
_WARNING = "warning: Rust inferlets cannot be built"


def test_debian_13_takes_rustup_from_apt_and_not_the_rust_for_browsers(setup_rust):
    did = setup_rust("rustup rustc-web", "ok", "none")
    assert did == ["apt: rustup", _INSTALL, "linked"]


def test_without_rustup_in_apt_the_official_one_is_downloaded(setup_rust):
    assert setup_rust("rustc-web", "ok", "none") == [_INSTALL, "linked"]


def test_a_rust_that_is_too_old_is_left_alone(setup_rust):
    assert setup_rust("", "ok", "1.63.0+") == [_INSTALL, "linked"]


def test_a_rust_that_will_do_is_used(setup_rust):
    assert setup_rust("rustup rustc-web", "ok", "1.95.0+") == []


@pytest.mark.parametrize("download", ["none", "corrupt"])
def test_a_machine_that_cannot_download_gets_a_rust_for_the_engine(setup_rust, download):
    did = setup_rust("rustc-web", download, "none")
    assert did == ["apt: rustc-web cargo-web", _WARNING]


def test_a_machine_without_any_rust_is_told_so(setup_rust):
    assert setup_rust("", "none", "none") == ["error: Rust 1.95 is needed"]
