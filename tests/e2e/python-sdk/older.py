"""The older API, used from an async program: its calls block."""

from inferlet import Context, Decoder, Event, Model, Sampler, messaging, runtime

GREEDY = Sampler.greedy()


def blocking() -> list:
    model = Model.load(runtime.models()[0])

    def ask() -> Context:
        ctx = Context(model, name="mine")
        return ctx.system("You are a helpful assistant.").user("Hello, world!")

    text = ask().generate_text(GREEDY, max_tokens=12)
    events = list(ask().generate(GREEDY, decode=True, max_tokens=12))
    texts = [event.text for event in events if isinstance(event, Event.Text)]
    stream = ask().generate(GREEDY, max_tokens=12)
    tokens = ask().generate(GREEDY, max_tokens=12).tokens()
    lists = list(ask().cue().generate(GREEDY, max_tokens=12, auto_flush=False).stop([]))
    ctx = ask().fork("beam-0").fill("plain ").fill_tokens([1, 2, 3])
    with messaging.subscribe("news") as sub:
        messaging.broadcast("news", "first")
        heard = []
        for message in sub:
            heard.append(message)
            break
    return [
        text == "".join(texts) == stream.text() == bytes(tokens).decode(),
        isinstance(events[-1], Event.Done) and events[-1].text == text,
        sum(map(len, lists)) == 12,
        [ctx.name, ctx.buffer()[-4:]],
        heard,
    ]


def parallel_calls() -> list:
    """Two calls in one batch of tokens, and text beside a control token."""
    model = Model.load(runtime.models()[0])
    calls = [f'<tool_call>{{"name": "{name}", "arguments": {{}}}}</tool_call>' for name in "ab"]
    events = Decoder(model, tool_use=True).feed(list("".join(calls).encode()))
    names = [event.name for event in events if isinstance(event, Event.ToolCall)]
    pad = 260
    return [names, [event.text for event in Decoder(model).feed([72, pad, 105])]]
