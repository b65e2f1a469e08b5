"""One chat turn: every piece of text is sent to the client as it comes, the whole is returned."""

from inferlet import Context, Model, Sampler, chat, runtime, session


async def main(input: dict) -> str:
    model = Model.load(runtime.models()[0])
    with Context(model) as ctx:
        ctx.system(input.get("system", "You are a helpful assistant.")).user(input["prompt"])

        sampler = Sampler.top_p(input.get("temperature", 0.6), 0.95)
        generator = ctx.generate(sampler, max_tokens=input.get("max_tokens", 256))
        decoder = chat.Decoder(model)
        text = ""
        async for step in generator:
            out = await step.execute()
            match decoder.feed(out.tokens):
                case chat.Event.Delta(text=delta):
                    session.send(delta)
                    text += delta
        return text
