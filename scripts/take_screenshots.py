#!/usr/bin/env python3
"""Takes the pictures of docs/images: the page of a server on which several inferlets run.

    PYTHONPATH=client/python/src build/venv/bin/python scripts/take_screenshots.py

It needs a build, the default model, the guests below (scripts/build_guests.py) and a browser.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pie_client import PieClient
from playwright.async_api import async_playwright

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "images"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CONFIG = """
[[model]]
name = "default"
hf_repo = "smollm2-135m-instruct"
[model.driver]
type = "cpu"
[model.driver.options]
total_pages = 768
"""
PROGRAMS = ("text-completion", "parallel-generation", "hello", "remember")
ESSAY = "Write a long essay about the history of bread, cakes and pies. " * 12


async def work(uri: str, began: asyncio.Event) -> None:
    """What the pictures show."""
    async with PieClient(uri, username="local") as client:
        for name in PROGRAMS:
            folder = ROOT / "inferlets" / name / "rust"
            wasm = ROOT / "build" / "guests" / f"{name}-rust.wasm"
            await client.install_program(wasm, folder / "Pie.toml")
        await (await client.launch_process("remember", {"prompt": "Good morning!"})).result()
        began.set()

        async def write(part: int, tokens: int) -> None:
            for number in range(1_000):
                prompt = f"{ESSAY} Write part {part}, version {number}."
                asked = {"prompt": prompt, "max_tokens": tokens, "temperature": 0.9}
                await (await client.launch_process("text-completion", asked)).result()

        await asyncio.gather(*(write(part, 60 * part * part) for part in range(1, 6)))


async def shoot(address: str) -> None:
    path = next(filter(None, map(shutil.which, BROWSERS)))
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = await browser.new_page(viewport={"width": 1200, "height": 1240})
        await page.goto(address)
        await asyncio.sleep(40)
        await page.locator("#processes button").nth(1).click()
        await asyncio.sleep(4)
        await page.screenshot(path=OUT / "page-light.png")
        await page.emulate_media(color_scheme="dark")
        await asyncio.sleep(1)
        await page.screenshot(path=OUT / "page-dark.png")
        await page.set_viewport_size({"width": 360, "height": 780})
        await page.emulate_media(color_scheme="light")
        await page.goto(f"{address}#playground")
        await page.select_option("#program", "text-completion@0.1.0")
        await page.fill("#parameter-prompt", "What is a pie?")
        await page.click("text=Launch >> nth=-1")
        await asyncio.sleep(5)
        await page.screenshot(path=OUT / "page-narrow.png", full_page=True)
        await browser.close()


async def main() -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / "config.toml").write_text(CONFIG)
        server = subprocess.Popen(
            [ROOT / "build" / "bin" / "pie", "serve", "--port", "0"],
            env={**os.environ, "PIE_HOME": home},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            uri = re.search(r"ws://\S+", server.stdout.readline())[0]
            began = asyncio.Event()
            working = asyncio.create_task(work(uri, began))
            await began.wait()
            await shoot(uri.replace("ws://", "http://") + "/")
            working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await working
        finally:
            server.kill()
            server.wait()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
