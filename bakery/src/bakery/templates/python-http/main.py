"""{{description}}: it answers HTTP requests. Each request runs in an instance of its own."""

from inferlet import Context, Model, Sampler, chat, http, runtime

MAX_BODY_BYTES = 1 << 20


async def handle(request: http.Request, respond: http.Responder) -> None:
    prompt = (await request.body(MAX_BODY_BYTES)).decode("utf-8", "replace")
    if not prompt:
        await respond.send("POST a prompt\n", status=400)
        return
    model = Model.load(runtime.models()[0])
    with Context(model) as ctx:
        ctx.user(prompt).cue()
        # The client sees each word as it comes.
        body = respond.start(headers={"content-type": "text/plain; charset=utf-8"})
        decoder = chat.Decoder(model)
        async for step in ctx.generate(Sampler.top_p(0.6, 0.95), max_tokens=256):
            output = await step.execute()
            match decoder.feed(output.tokens):
                case chat.Event.Delta(text):
                    await body.write(text)
        await body.write("\n")
        body.finish()
