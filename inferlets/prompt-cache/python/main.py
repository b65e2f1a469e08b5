"""Answers questions about a document. The document is computed once and saved under a name. Later
runs, also after a restart of the engine, open the snapshot and compute nothing but the question."""

from inferlet import Context, Model, Sampler, runtime


async def main(input: dict) -> dict:
    model = Model.load(runtime.models()[0])
    ctx = Context.open(model, input["name"])
    reused = ctx.seq_len if ctx else 0
    if ctx is None:
        ctx = Context(model)
        ctx.system(f"Answer questions about this document.\n\n{input['document']}")
        await ctx.flush()
        ctx.save(input["name"])
    with ctx:
        ctx.user(input["question"])
        generator = ctx.generate(Sampler.argmax(), max_tokens=input.get("max_tokens", 128))
        return {"answer": await generator.collect_text(), "reused": reused}
