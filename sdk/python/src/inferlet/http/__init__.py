"""HTTP, both ways: requests that an inferlet makes, and requests that it answers.

    weather = await (await http.get("https://api.example.com/today")).json()

The engine's config names the hosts that inferlets may reach (`[runtime.http] allow`). Redirects are
not followed here: the answer is the redirect itself. `urllib.request` works too, and follows them
by requests of its own, which the engine checks as well.

A program that defines `handle` in place of `main` answers HTTP requests, each in an instance of its
own:

    async def handle(request: http.Request, respond: http.Responder) -> None:
        await respond.send("hello", headers={"content-type": "text/plain"})
"""

from ._client import Response, get, post, request
from ._server import Body, Request, Responder

__all__ = ["Body", "Request", "Responder", "Response", "get", "post", "request"]
