"""Cases about the runtime, models, tokenizers, chat templates and what is not available yet."""

import math
from collections.abc import Sequence
from typing import Any

from table import case, encode, load_model

from inferlet import (
    Context,
    chat,
    mcp,
    reasoning,
    runtime,
    scheduling,
    tools,
)

Tokens = Sequence[int]
Batches = list[list[int]]


@case
async def echo(value: Any) -> Any:
    return value


@case
async def print_(texts: list[str]) -> int:
    for text in texts:
        print(text)
    return len(texts)


@case
async def runtime_() -> dict:
    return {
        "models": runtime.models(),
        "username": runtime.username(),
        "version": runtime.version() != "",
        "instance_id": runtime.instance_id() != "",
    }


@case
async def tokenizer(text: str) -> dict:
    tk = load_model().tokenizer()
    tokens = tk.encode(text)
    return {"tokens": tokens, "text": tk.decode(tokens)}


@case
async def decode_special() -> dict:
    model = load_model()
    tk, cue = model.tokenizer(), chat.cue(model)
    return {"cue": tk.decode(cue), "without": tk.decode(cue, skip_special_tokens=True)}


@case
async def tokenizer_bad(tokens: list[int]) -> str:
    return load_model().tokenizer().decode(tokens)


@case
async def vocab() -> dict:
    model = load_model()
    tk = model.tokenizer()
    ids, texts = tk.vocabs()
    special = tk.special_tokens()[1]
    return {
        "count": len(ids),
        "dense": sorted(ids) == list(range(len(ids))),
        "a": texts[ids.index(encode(model, "a")[0])].decode(),
        "special": sorted(name.decode() for name in special),
        "split_regex": tk.split_regex(),
    }


@case
async def chat_tokens(system: str, user: str, assistant: str) -> dict:
    model = load_model()
    return {
        "system": chat.system(model, system),
        "user": chat.user(model, user),
        "assistant": chat.assistant(model, assistant),
        "cue": chat.cue(model),
        "seal": chat.seal(model),
        "stop": chat.stop_tokens(model),
    }


def fed(tokens: Tokens, batches: Batches | None) -> Batches:
    """The tokens that a decoder is fed: the batches, or else one token at a time."""
    return [[token] for token in tokens] if batches is None else batches


@case
async def chat_decoder(tokens: Tokens = (), batches: Batches | None = None) -> list:
    decoder = chat.Decoder(load_model())
    events = []
    for batch in fed(tokens, batches):
        match decoder.feed(batch):
            case chat.Event.Delta(text=text):
                events.append(["delta", text])
            case chat.Event.Done(text=text):
                events.append(["done", text])
            case chat.Event.Interrupt(token=control):
                events.append(["interrupt", control])
            case chat.Event.Idle():
                events.append(["idle", None])
    return events


@case
async def reasoning_decoder(tokens: Tokens = (), batches: Batches | None = None) -> list:
    decoder = reasoning.Decoder(load_model())
    events = []
    for batch in fed(tokens, batches):
        match decoder.feed(batch):
            case reasoning.Event.Start():
                events.append(["start", None])
            case reasoning.Event.Delta(text=text):
                events.append(["delta", text])
            case reasoning.Event.End(text=text):
                events.append(["end", text])
            case reasoning.Event.Idle():
                events.append(["idle", None])
    return events


@case
async def tool_decoder(tokens: Tokens = (), batches: Batches | None = None) -> list:
    decoder = tools.Decoder(load_model())
    events = []
    for batch in fed(tokens, batches):
        match decoder.feed(batch):
            case tools.Event.Call(name=name, args=args):
                events.append(["call", name, args])
            case tools.Event.Start():
                events.append(["start"])
            case tools.Event.Idle():
                events.append(["idle"])
    return events


@case
async def scheduling_() -> dict:
    model = load_model()
    with Context(model) as ctx:
        values = {
            "price": scheduling.price(),
            "rent": scheduling.rent(ctx),
            "dividend": scheduling.dividend(model),
            "latency": scheduling.latency(ctx),
            "balance": scheduling.balance(model),
        }
    return {name: math.isfinite(value) for name, value in values.items()}


@case
async def unavailable() -> dict:
    return {
        "mcp": fails(lambda: mcp.connect("none")),
    }


def fails(attempt: Any) -> bool:
    """Does it raise, with a text?"""
    try:
        attempt()
    except Exception as error:
        return str(error) != ""
    return False
