import asyncio
import sys

from pie_client import PieClient


async def main(uri: str) -> None:
    async with PieClient(uri, username="ada") as client:
        process = await client.launch_process(
            "text-completion", {"prompt": "Hello", "temperature": 0}
        )
        async for text in process.stream():
            print(text, end="", flush=True)


asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "ws://127.0.0.1:8080"))
