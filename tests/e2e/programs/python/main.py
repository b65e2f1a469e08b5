"""Programs as users write them from the reference documents. Each checks what it relies on."""

import beam_search
import guidance
import prompt_lookup
import watermark
import window

PROGRAMS = {
    "beam-search": beam_search,
    "guidance": guidance,
    "prompt-lookup": prompt_lookup,
    "watermark": watermark,
    "window": window,
}


async def main(input: dict) -> dict:
    return await PROGRAMS[input["program"]].main(input)
