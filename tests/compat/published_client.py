"""Drives a server with the published client package, by its documented calls only.

    published_client.py URI COMPONENT MANIFEST [KEY_FILE]

Run by test_published_client.py, in an environment that has the package. Prints JSON.
"""

import asyncio
import hashlib
import json
import sys
from pathlib import Path

from pie_client import Event, ParsedPrivateKey, PieClient


async def events_of(process) -> list[list[str]]:
    events = []
    while True:
        event, value = await process.recv()
        if isinstance(value, (bytes, bytearray)):
            value = f"{len(value)} bytes, {hashlib.sha256(value).hexdigest()}"
        events.append([event.name, value])
        if event in (Event.Return, Event.Error):
            return events


async def main(uri: str, component: str, manifest: str, key: str | None) -> dict:
    found: dict = {}
    async with PieClient(uri) as client:
        if key is None:
            await client.authenticate("ada")
        else:
            await client.authenticate("ada", ParsedPrivateKey.parse(Path(key).read_text()))
        await client.ping()
        found["before"] = await client.check_program("session@0.1.0")
        await client.install_program(component, manifest, force_overwrite=True)
        found["after"] = await client.check_program("session@0.1.0")

        async def run(**input) -> list[list[str]]:
            process = await client.launch_process("session@0.1.0", input=input)
            return await events_of(process)

        # This client loses a file that arrives right after the launch.
        found["speak"] = await run(do="speak", wait_ms=300)
        found["fail"] = await run(do="fail")

        process = await client.launch_process("session@0.1.0", input={"do": "echo"})
        await process.signal("one")
        await process.signal("stop")
        found["echo"] = await events_of(process)

        process = await client.launch_process("session@0.1.0", input={"do": "echo-file"})
        await process.transfer_file(bytes(range(256)) * 4000)
        found["file"] = await events_of(process)

        process = await client.launch_process("session@0.1.0", input={"do": "forever"})
        found["listed"] = len(await client.list_processes())
        await process.terminate()
        found["terminated"] = await events_of(process)
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:4], sys.argv[4] if len(sys.argv) > 4 else None))))
