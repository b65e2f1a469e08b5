"""An installation runs without the checkout, wherever it lies. Packages can be installed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import build_clients
from bakery.toolchain import cache_dir, node_modules

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    "bakery",
    *(f"client/{language}" for language in ("javascript", "python", "rust")),
    *(f"sdk/{part}" for part in ("javascript", "python", "rust/inferlet", "rust/inferlet-macros")),
)
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


def test_it_has_all_files_of_new_projects(prefix):
    """The tests of a new project are part of its template, and not tests of ours."""
    folder = "bakery/src/bakery/templates"
    ours, installed = (
        {path.relative_to(root) for path in root.rglob("*") if path.is_file()}
        for root in (ROOT / folder, prefix / "share/pie" / folder)
    )
    assert installed == ours


def test_it_names_its_own_places_only(prefix):
    """No script or text in it mentions the checkout."""
    for path in (prefix / "share").rglob("*"):
        if path.is_file() and path.suffix != ".wasm":
            assert str(ROOT).encode() not in path.read_bytes(), path


def test_it_brings_licences_and_a_unit(prefix, tmp_path):
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
    if shutil.which("systemd-analyze"):
        here = tmp_path / "pie.service"
        here.write_text(re.sub("(?m)^ExecStart=.*", "ExecStart=/bin/true", unit))
        assert run(["systemd-analyze", "verify", "--man=no", here]).stderr == ""
        # 0 is the most secure and 100 the least. The network and a GPU's devices are left.
        run(["systemd-analyze", "security", "--offline=true", "--threshold=20", here])
    check = [prefix / "bin/pie", "check", prefix / "share/pie/config.example.toml"]
    run(check)


def test_each_package_has_the_licence():
    """A package is built from its own folder, so the file is there as well."""
    licence = (ROOT / "LICENSE").read_text()
    for package in PACKAGES:
        assert (ROOT / package / "LICENSE").read_text() == licence, package


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
    assert list((tmp_path / "site").glob("*.dist-info/**/LICENSE"))
    for field in ("License", "Summary", "Requires-Python", "Description-Content-Type"):
        assert field in metadata
    if package == "client/python":
        imported = "import pie_client; print(pie_client.__file__)"
        path = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
        assert str(tmp_path) in run([sys.executable, "-c", imported], env=path, cwd=tmp_path).stdout


def unpacked_npm_package(source: Path, folder: Path) -> Path:
    """The files that npm would publish, unpacked where Node looks for packages."""
    path = f"{node_modules() / '.bin'}:{os.environ['PATH']}"  # packing needs tsc
    pack = ["npm", "pack", "--silent", "--pack-destination", folder]
    run(pack, cwd=source, env={**os.environ, "PATH": path})
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    about = json.loads((folder / "package/package.json").read_text())
    assert {"name", "version", "description", "license", "engines"} <= about.keys()
    assert (folder / "package/README.md").is_file() and (folder / "package/LICENSE").is_file()
    assert (folder / "package" / about["types"]).is_file()
    (folder / "node_modules").mkdir()
    return (folder / "package").rename(folder / "node_modules" / about["name"])


def test_the_npm_package_of_the_client(tmp_path):
    package = unpacked_npm_package(build_clients.javascript(), tmp_path)
    (package / "node_modules").symlink_to(build_clients.javascript_modules())
    program = "import { PieClient } from 'pie-client'; console.log(typeof PieClient);"
    done = run(["node", "--input-type=module", "-e", program], cwd=tmp_path)
    assert done.stdout == "function\n"


def test_the_npm_package_of_the_sdk(tmp_path):
    """It is TypeScript, which bakery compiles together with a program."""
    package = unpacked_npm_package(ROOT / "sdk/javascript", tmp_path)
    assert not (package / "test").exists()
    (tmp_path / "program.ts").write_text(
        "import { Context, Model } from 'inferlet';\n"
        "export const begin = (name: string) => new Context(Model.load(name));\n"
    )
    bundle = ["--bundle", "--format=esm", "--platform=neutral", "--outfile=program.js"]
    outside = ["--external:pie:*", "--external:wasi:*", "--external:node:*"]
    tool = node_modules() / ".bin" / "esbuild"
    run([tool, "program.ts", *bundle, *outside], cwd=tmp_path)
    assert (tmp_path / "program.js").stat().st_size > 10_000


def test_the_rust_package_of_the_client(tmp_path):
    """The archive that cargo would publish compiles by itself."""
    package = ["cargo", "package", "--allow-dirty", "--offline", "--no-verify"]
    manifest = ROOT / "client/rust/Cargo.toml"
    run([*package, "--manifest-path", manifest, "--target-dir", tmp_path])
    (archive,) = (tmp_path / "package").glob("pie-client-*.crate")
    folder = unpacked_crate(archive, tmp_path)
    assert (folder / "README.md").is_file() and (folder / "LICENSE").is_file()
    # The files that the tests of the clients have compiled are used again.
    env = {**os.environ, "CARGO_TARGET_DIR": str(cache_dir("cargo/client-rust"))}
    run(["cargo", "build", "--release", "--offline", "--quiet", "--examples"], cwd=folder, env=env)


def test_the_rust_packages_of_the_sdk(tmp_path):
    """The archives hold all that the crates are made of: the contract too, which lies elsewhere."""
    for name in ("inferlet-macros", "inferlet"):
        listing = ["cargo", "package", "--list", "--allow-dirty", "--offline", "-p", name]
        files = run(listing, cwd=ROOT / "sdk/rust").stdout.split()
        assert {"src/lib.rs", "README.md", "LICENSE", "Cargo.toml"} <= set(files)
    for name, source in {"wit": ROOT / "wit", "wasi": ROOT / "sdk/wasi"}.items():
        contract = {f"{name}/{path.relative_to(source)}" for path in source.rglob("*.wit")}
        assert contract and contract <= set(files)
    # Nothing outside of the package is named.
    for path in (ROOT / "sdk/rust/inferlet/src").rglob("*.rs"):
        assert 'path: "..' not in path.read_text(), path


def unpacked_crate(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder / archive.stem
