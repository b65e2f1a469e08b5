"""An installation runs without the checkout, wherever it lies. Packages can be installed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import build_clients
from bakery.toolchain import cache_dir

ROOT = Path(__file__).resolve().parents[2]
_LIMIT_S = 600  # the first build of an inferlet compiles its SDK


def run(command, **options) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_LIMIT_S, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> Iterator[Path]:
    """An installation that was moved after it had been made."""
    folder = tmp_path_factory.mktemp("install")
    run([ROOT / "scripts/install.sh", folder / "first"])
    moved = (folder / "first").rename(folder / "moved")
    yield moved
    # What `pie setup` keeps for an installation has the name that packaging/launcher.sh computes.
    digest = hashlib.sha256(str(moved / "share/pie").encode()).hexdigest()[:16]
    shutil.rmtree(cache_dir("installed") / digest, ignore_errors=True)


def test_it_builds_runs_and_serves(prefix):
    # No variable of this test run leads back to the checkout.
    kept = ("HOME", "PATH", "TERM", "PIE_CACHE", "XDG_CACHE_HOME", "PIP_CERT", "SSL_CERT_FILE")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    done = run(
        [ROOT / "packaging/check_installation.sh", prefix, "python", "rust"], env=environment
    )
    assert "served app-python" in done.stdout


def test_it_names_its_own_places_only(prefix):
    """No script or text in it mentions the checkout."""
    for path in (prefix / "share").rglob("*"):
        if path.is_file() and path.suffix != ".wasm":
            assert str(ROOT).encode() not in path.read_bytes(), path


def test_it_brings_licences_and_a_unit(prefix):
    licences = (prefix / "share/doc/pie/LICENCES.txt").read_text()
    for name in (
        "wasmtime",
        "llguidance",
        "serde",
        "libssl-dev",
        "@noble/hashes",
        "Apache License",
    ):
        assert name in licences
    assert "page/app.js" in (prefix / "share/pie/web/index.html").read_text()
    unit = (prefix / "lib/systemd/system/pie.service").read_text()
    assert "ExecStart=" in unit and "@PREFIX@" not in unit
    check = [prefix / "bin/pie", "check", prefix / "share/pie/config.example.toml"]
    run(check)


@pytest.mark.parametrize("package", ["client/python", "sdk/python"])
def test_wheels(package, tmp_path):
    source = tmp_path / "source"
    run(["cp", "-r", ROOT / package, source])
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "wheel", "--quiet", "--no-deps", "-w", tmp_path, source])
    (wheel,) = tmp_path.glob("*.whl")
    run([*pip, "install", "--quiet", "--no-deps", "--target", tmp_path / "site", wheel])
    module = {"client/python": "pie_client", "sdk/python": "inferlet"}[package]
    assert (tmp_path / "site" / module / "py.typed").is_file()
    metadata = next((tmp_path / "site").glob("*.dist-info/METADATA")).read_text()
    for field in ("License", "Summary", "Requires-Python", "Description-Content-Type"):
        assert field in metadata
    if package == "client/python":
        imported = "import pie_client; print(pie_client.__file__)"
        path = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
        assert str(tmp_path) in run([sys.executable, "-c", imported], env=path, cwd=tmp_path).stdout


def test_the_npm_package(tmp_path):
    run(["npm", "pack", "--silent", "--pack-destination", tmp_path], cwd=build_clients.javascript())
    (archive,) = tmp_path.glob("*.tgz")
    with tarfile.open(archive) as files:
        names = files.getnames()
    assert {"package/package.json", "package/dist/index.js", "package/README.md"} <= set(names)


def test_rust_packages(tmp_path):
    """The archive that cargo would publish holds the sources and the licence's name."""
    package = ["cargo", "package", "--no-verify", "--allow-dirty", "--offline"]
    manifest = ROOT / "client/rust/Cargo.toml"
    run([*package, "--manifest-path", manifest, "--target-dir", tmp_path])
    (archive,) = (tmp_path / "package").glob("pie-client-*.crate")
    with tarfile.open(archive) as files:
        names = [Path(member).name for member in files.getnames()]
    assert "lib.rs" in names and "README.md" in names
