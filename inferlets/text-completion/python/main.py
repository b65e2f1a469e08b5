"""Answers a prompt and streams the answer to the client while it is being written."""

from inferlet import Context, Model, Sampler, chat, runtime, session


async def main(input: dict) -> str:
    model = Model.load(runtime.models()[0])
    decoder = chat.Decoder(model)
    text = ""
    with Context(model) as ctx:
        ctx.system(input.get("system", "You are a helpful assistant."))
        ctx.user(input.get("prompt", "Tell me something about pies."))
        async for step in ctx.generate(
            Sampler.top_p(0.6, 0.95), max_tokens=input.get("max_tokens", 256)
        ):
            out = await step.execute()
            match decoder.feed(out.tokens):
                case chat.Event.Delta(text=delta):
                    text += delta
                    session.send(delta)
                case chat.Event.Done():
                    break
    return text
