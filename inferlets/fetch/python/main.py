"""Fetches a page by HTTP."""

from inferlet import http


async def main(input: dict) -> str:
    response = await http.get(input["url"], headers={"accept": "text/plain"})
    return f"{response.status}: {await response.text()}"
