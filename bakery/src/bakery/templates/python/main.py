"""{{description}}."""

from inferlet import Context, Model, Sampler, runtime


async def main(input: dict) -> str:
    """Runs inside the engine. `input` holds the parameters of Pie.toml."""
    model = Model.load(runtime.models()[0])
    with Context(model) as ctx:
        ctx.system("You are a helpful assistant.")
        ctx.user(input.get("prompt", "Tell me about pie."))
        generator = ctx.generate(Sampler.top_p(0.6, 0.95), max_tokens=input.get("max_tokens", 64))
        return await generator.collect_text()
