"""Parts of requests and answers that tests of the OpenAI and Anthropic APIs share."""

from __future__ import annotations

import httpx2 as httpx

CHAT = [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Hello"}]
CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "enum": ["Seoul", "Oslo"]},
        "degrees": {"type": "integer", "minimum": 0, "maximum": 40},
    },
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather", "parameters": CITY},
}


def counts(usage) -> dict[str, int]:
    """Returns the token counts of a request, without the cached tokens, which depend on earlier
    requests.
    """
    return usage.model_dump(exclude={"prompt_tokens_details"})


def metric(api, name: str) -> int:
    text = httpx.get(f"http://127.0.0.1:{api.port}/metrics").text
    line = next(line for line in text.splitlines() if line.startswith(f"{name} "))
    return int(float(line.split()[1]))
