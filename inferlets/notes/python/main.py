"""Keeps notes in files of /scratch, and reads them back."""

from pathlib import Path

FOLDER = Path("/scratch/notes")


def main(input: dict) -> str:
    FOLDER.mkdir()
    for number, note in enumerate(input["notes"].split(",")):
        (FOLDER / f"{number}.txt").write_text(note.strip())
    return "\n".join(sorted(f"{path}: {path.read_text()}" for path in FOLDER.iterdir()))
