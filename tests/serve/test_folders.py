"""A process can use its own /scratch and its user's /data, and no other files."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from conftest import ROOT, SESSION, component, session_client
from raw_client import RawClient


def run(on, server, steps: list[list[str]], user: str = "ada") -> list[str]:
    """Runs these steps in one process. Returns the result of each."""

    async def talk():
        async with await session_client(server, user) as client:
            process = await client.launch(SESSION, json.dumps({"do": "files", "steps": steps}))
            return await client.until_end(process)

    events = on(talk())
    assert events[-1][0] == "return", events
    return json.loads(events[-1][1])


@pytest.fixture(scope="module")
def folders(start, tmp_path_factory):
    data = tmp_path_factory.mktemp("data")
    server = start(
        config=f"""
[runtime]
allow_fs = true
fs_scratch_dir = "{tmp_path_factory.mktemp("scratch")}"
fs_scratch_quota_mb = 20
fs_data_dir = "{data}"
fs_data_quota_mb = 20
"""
    )
    server.data = data
    return server


def test_by_default_there_are_two_folders_and_nothing_else(server, on):
    for folder in ("/scratch", "/data"):
        path = f"{folder}/by-default"
        assert run(on, server, [["write", path, "x"], ["read", path]]) == ["ok", "x"]
    assert run(on, server, [["read", "/data/by-default"]]) == ["x"]
    for path in ("/scratch/by-default", "/data/never", "/etc/passwd", "a"):
        assert run(on, server, [["read", path]])[0].startswith("error"), path


def test_without_allow_fs_there_are_no_files(start, on):
    server = start(config="[runtime]\nallow_fs = false\n")
    for path in ("/scratch/a", "/data/a", "/etc/passwd", "a"):
        assert run(on, server, [["write", path, "x"]])[0].startswith("error"), path


def test_what_is_left_behind_is_removed(start, on, tmp_path):
    scratch = tmp_path / "scratch"
    config = f'[runtime]\nfs_scratch_dir = "{scratch}"\n'
    server = start(config=config)
    run(on, server, [["write", "/scratch/a", "x"]])
    assert [path for path in scratch.rglob("*") if path.is_file()] == []
    server.process.kill()
    server.wait()
    (left,) = scratch.iterdir()  # the folder of the engine that was killed
    again = start(config=config)
    assert left not in scratch.iterdir()
    again.stop()
    assert list(scratch.iterdir()) == []


def test_quota_of_all_scratch_folders(start, on):
    """One user has 80 percent of it."""
    server = start(config="[runtime]\nfs_scratch_total_mb = 10\n")
    (text,) = fill(on, server, "ada", [{"path": "/scratch/big"}])
    assert (
        "the /scratch folders of this user's inferlets are full; together they may hold 8 MiB"
        in text
    )


def test_scratch_is_a_processs_own_and_goes_with_it(folders, on):
    assert run(on, folders, [["write", "/scratch/a", "x"], ["read", "/scratch/a"]]) == ["ok", "x"]
    assert run(on, folders, [["read", "/scratch/a"]])[0].startswith("error")


def test_data_is_a_users_own_and_stays(folders, on):
    run(on, folders, [["write", "/data/a", "of ada"]])
    assert run(on, folders, [["read", "/data/a"]]) == ["of ada"]
    assert run(on, folders, [["read", "/data/a"]], "eve")[0].startswith("error")
    for name in ("../ada", "..", ".", "ada/", "Ada", "%61da"):
        assert run(on, folders, [["read", "/data/a"]], name)[0].startswith("error"), name


def test_no_way_out_by_names_and_links(folders, on):
    secret = folders.data / "secret"
    secret.write_text("secret")
    folder = folders.data / "mallory"
    run(on, folders, [["write", "/data/own", "x"]], "mallory")
    (folder / "planted").symlink_to(secret)  # a link that an attacker might have planted
    (folder / "planted-folder").symlink_to("/etc")
    steps = [
        ["read", "/data/../secret"],
        ["read", "/data/../../../../etc/passwd"],
        ["read", "/scratch/../secret"],
        ["read", "/etc/passwd"],
        ["read", "/data/planted"],
        ["read", "/data/planted-folder/passwd"],
        ["link", "/etc/passwd", "/data/made"],
        ["read", "/data/made"],
        ["link", "../secret", "/data/up"],
        ["read", "/data/up"],
        ["write", "/data/up", "spoilt"],
        ["write", "/data/../secret", "spoilt"],
    ]
    for step, answer in zip(steps, run(on, folders, steps, "mallory"), strict=True):
        if step[0] != "link":
            assert answer.startswith("error"), (step, answer)
    assert secret.read_text() == "secret"


def fill(on, server, user: str, inputs: list[dict]) -> list[str]:
    """Runs processes that write as fast as they can, all at once, until each gets an error.
    Returns what each was told."""

    async def one(given):
        async with await session_client(server, user) as client:
            whole = json.dumps({"do": "fill", "mb": 60, **given})
            return await client.until_end(await client.launch(SESSION, whole))

    async def all_of_them():
        return await asyncio.gather(*map(one, inputs))

    runs = on(all_of_them())
    ends = [events[-1] for events in runs]
    assert all(kind == "error" and "os error" in text for kind, text in ends), ends
    return [stderr_of(events) for events in runs]


def stderr_of(events: list[tuple[str, str]]) -> str:
    return "".join(value for kind, value in events if kind == "stderr")


def on_disk(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))


QUOTA = 20 << 20


@pytest.mark.parametrize("nameless", [False, True])
def test_quota_of_scratch(folders, on, nameless):
    (text,) = fill(on, folders, "ada", [{"path": "/scratch/big", "nameless": nameless}])
    assert "disk quota: /scratch is full; it may hold 20 MiB" in text


def test_a_process_goes_on_after_a_write_beyond_the_quota(folders, on):
    async def talk():
        async with await session_client(folders) as client:
            asked = {"do": "fill", "mb": 30, "path": "/scratch/big", "recover": True}
            return await client.until_end(await client.launch(SESSION, json.dumps(asked)))

    events = on(talk())
    assert events[-1] == ("return", "full"), events
    assert stderr_of(events).count("disk quota: /scratch is full") == 1


@pytest.mark.parametrize(
    ("language", "error"),
    [("rust", "os error"), ("python", "I/O error"), ("typescript", "ENOSPC: no space left")],
)
def test_languages_report_a_full_folder(start, on, language, error):
    server = start(config="[runtime]\nfs_scratch_quota_mb = 1\n")
    manifest = (ROOT / f"inferlets/notes/{language}/Pie.toml").read_text()

    async def talk():
        async with await RawClient.connect(server.uri) as client:
            await client.install(component(f"notes-{language}"), manifest, force=True)
            notes = json.dumps({"notes": "x" * (2 << 20)})
            return await client.until_end(await client.launch("notes@0.1.0", notes))

    events = on(talk())
    assert events[-1][0] == "error" and error in events[-1][1], events
    assert "disk quota: /scratch is full; it may hold 1 MiB" in stderr_of(events)


def test_quota_of_data_that_many_fill_at_once(folders, on):
    """The quota is never exceeded on disk, although all processes write to one folder."""
    texts = fill(on, folders, "hog", [{"path": f"/data/{i}"} for i in range(6)])
    assert all("disk quota: /data is full; it may hold 20 MiB" in text for text in texts)
    assert QUOTA * 3 // 4 < on_disk(folders.data / "hog") <= QUOTA
    # Overwriting needs no more room, and room that was freed can be used.
    steps = [["write", "/data/0", "x"], ["write", "/data/1", "y"], ["read", "/data/0"]]
    assert run(on, folders, steps, "hog") == ["ok", "ok", "x"]
    fill(on, folders, "hog", [{"path": "/data/2"}])
    assert on_disk(folders.data / "hog") <= QUOTA
