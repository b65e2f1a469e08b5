"""Guesses ahead with the words of the prompt: what followed the last token there may follow it
again."""

from inferlet import Context, Model, Sampler, runtime


class Lookup:
    def __init__(self, prompt: list[int]) -> None:
        self.text = prompt  # and the answer so far

    def draft(self) -> tuple[list[int], list[int]]:
        last = len(self.text) - 1
        for found in range(last - 1, -1, -1):
            if self.text[found] == self.text[last]:
                return self.text[found + 1 : min(found + 5, last)], []  # after the sequence
        return [], []

    def accept(self, tokens: list[int]) -> None:
        self.text += tokens

    def rollback(self, n: int) -> None:
        pass

    def reset(self) -> None:
        pass


async def main(input: dict) -> str:
    model = Model.load(runtime.models()[0])
    with Context(model) as ctx:
        ctx.user(input["prompt"]).cue()
        lookup = Lookup(ctx.buffer())
        max_tokens = input.get("max_tokens", 64)
        generator = ctx.generate(
            Sampler.argmax(), speculator=lookup, max_tokens=max_tokens, auto_flush=False
        )
        return await generator.collect_text()
