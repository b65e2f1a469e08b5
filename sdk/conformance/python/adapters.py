"""Cases about adapters and zeroth-order tuning."""

from typing import Any

from table import GREEDY, case, load_model

from inferlet import Adapter, Context, zo


@case
async def adapter(prompt: str, max_tokens: int) -> dict:
    model = load_model()

    async def generate(**options: Any) -> list[int]:
        with Context(model) as ctx:
            generator = ctx.user(prompt).generate(GREEDY, max_tokens=max_tokens, **options)
            return await generator.collect_tokens()

    def fails(attempt: Any) -> bool:
        try:
            attempt()
        except Exception as error:
            return str(error) != ""
        return False

    for name in ("conformance", "conformance-copy", "conformance-import"):
        if old := Adapter.open(model, name):
            old.destroy()
    made = Adapter.create(model, "conformance")
    zo.initialize(made, 2, 2.0, 4, 0.5, 0.5)
    plain = await generate()
    zero = await generate(adapter=made)
    seeded = await generate(adapter=made, zo_seed=7)
    again = await generate(adapter=made, zo_seed=7)
    negative = await generate(adapter=made, zo_seed=-7)
    zo.update(made, [4, 1, 3, 2], [7, -7, 8, -8], 1.0)
    tuned = await generate(adapter=made)
    copy = made.fork("conformance-copy")
    forked = await generate(adapter=copy)
    opened = Adapter.open(model, "conformance-copy") is not None
    taken = fails(lambda: Adapter.create(model, "conformance"))
    wrong = fails(lambda: zo.update(made, [1], [1], 1.0))
    fork_taken = fails(lambda: made.fork("conformance-copy"))
    files = made.export()
    imported = Adapter.create(model, "conformance-import")
    bad_import = fails(lambda: imported.import_(files.config, b"no tensors"))
    imported.import_(files.config, files.tensors)
    exported = await generate(adapter=imported)
    names = [name for name in Adapter.names(model) if name.startswith("conformance")]
    for made_here in (made, copy, imported):
        made_here.destroy()
    return {
        "plain": plain,
        "seeded": seeded,
        "negative": negative,
        "tuned": tuned,
        "zero_same": zero == plain,
        "seed_differs": seeded != plain,
        "seed_same": seeded == again,
        "tuned_differs": tuned != plain,
        "forked_same": forked == tuned,
        "opened": opened,
        "taken": taken,
        "wrong_scores": wrong,
        "fork_taken": fork_taken,
        "bad_import": bad_import,
        "exported_same": exported == tuned,
        "names": names,
        "gone": Adapter.open(model, "conformance") is None,
    }
