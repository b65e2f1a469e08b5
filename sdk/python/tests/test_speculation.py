"""Speculators: the same tokens in fewer passes."""

import engine
import pytest
from engine_resources import PAGE

from inferlet import Context, Regex, Sampler, _async, brle

GREEDY = Sampler.argmax()
run = _async.run


def greedy_tokens(model, **options):
    with Context(model) as ctx:
        return ctx.user("hi").generate(GREEDY, **options).collect_tokens()


class Oracle:
    """Drafts what greedy decoding will say, with a mistake at every third place."""

    def __init__(self, truth):
        self.truth, self.at, self.rolled = truth, 0, 0

    def draft(self):
        ahead = self.truth[self.at : self.at + 4]
        return [t if (self.at + i) % 3 else 98 for i, t in enumerate(ahead)], []

    def accept(self, tokens):
        self.at += len(tokens)

    def rollback(self, n):
        self.rolled += n

    def reset(self):
        self.at = 0


@pytest.mark.parametrize("options", [{}, {"max_tokens": 6}, {"max_tokens": 7}, {"max_tokens": 8}])
def test_speculation_changes_nothing_but_the_passes(model, options):
    truth = greedy_tokens(model, **options)
    plain_passes = engine.state.calls["execute"]
    with Context(model) as plain, Context(model) as ctx:
        plain.user("hi").generate(GREEDY, **options).collect_tokens()
        engine.state.calls.clear()
        oracle = Oracle(truth)
        ctx.user("hi")
        assert ctx.generate(GREEDY, speculator=oracle, **options).collect_tokens() == truth
        assert engine.state.calls["execute"] < plain_passes
        assert oracle.rolled > 0
        assert (ctx.seq_len, ctx.buffer()) == (plain.seq_len, plain.buffer())


def test_accept_takes_kept_drafts_back_too(model):
    class AllRight(Oracle):
        """Drafts a whole page, and more, that the model agrees with."""

        def __init__(self, truth):
            super().__init__(truth)
            self.told = []

        def draft(self):
            return self.truth[self.at : self.at + PAGE + 2], []

        def accept(self, tokens):
            super().accept(tokens)
            self.told.append(tokens)

    async def main(truth):
        drafter = AllRight(truth)
        with Context(model) as ctx:
            ctx.user("hi")
            generator = ctx.generate(GREEDY, max_tokens=12, speculator=drafter)
            start = len(ctx.buffer())
            async for step in generator:
                out = await step.execute()
                assert len(out.tokens) == PAGE + 3
                assert ctx.seq_len == start + PAGE + 2
                assert generator.accept([122]) == [122]
                assert (ctx.seq_len, ctx.buffer()) == (start, [122])
                assert generator.tokens_generated == 1
                break
            drafter.draft = lambda: ([], [])
            async for step in generator:
                assert drafter.told == [[122]]
                await step.execute()
                assert ctx.seq_len == start + 1
                break

    run(main(greedy_tokens(model, max_tokens=12)))


class Recorded(Oracle):
    """Notes what it is told. All of its drafts are right."""

    def __init__(self, truth, size=4):
        super().__init__(truth)
        self.size, self.told = size, []

    def draft(self):
        ahead = self.truth[self.at : self.at + self.size]
        self.told.append(("draft", len(ahead)))
        return ahead, []

    def accept(self, tokens):
        super().accept(tokens)
        self.told.append(("accept", len(tokens)))

    def rollback(self, n):
        self.told.append(("rollback", n))

    def reset(self):
        self.told.append(("reset",))


def test_what_a_speculator_is_told_at_a_limit_and_a_stop(model):
    truth = greedy_tokens(model, max_tokens=12)
    drafter = Recorded(truth)
    assert greedy_tokens(model, max_tokens=7, speculator=drafter) == truth[:7]
    limit = [("draft", 4), ("accept", 5), ("draft", 4), ("rollback", 3), ("accept", 2), ("reset",)]
    assert drafter.told == limit
    drafter = Recorded(truth)
    assert greedy_tokens(model, stop=[truth[2]], speculator=drafter) == truth[:2]
    assert drafter.told == [("draft", 4), ("rollback", 2), ("accept", 2), ("reset",)]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_seed_for_seed_the_same(model, seed):
    options = {"seed": seed, "max_tokens": 12}

    def drawn(**more):
        with Context(model) as ctx:
            g = ctx.user("hi").generate(Sampler.multinomial(1.0), **options, **more).stop([])
            return g.collect_tokens()

    truth = drawn()
    assert drawn(speculator=Recorded(truth, size=3)) == truth
    assert engine.state.drafted


def test_positions_are_the_drafters(model):
    class Placed(Recorded):
        def draft(self):
            tokens, _ = super().draft()
            return tokens, [500 + i for i in range(len(tokens))]

    truth = greedy_tokens(model, max_tokens=6)
    greedy_tokens(model, max_tokens=6, speculator=Placed(truth))
    assert engine.state.drafted[0] == (truth[:4], [500, 501, 502, 503])

    class Wrong(Recorded):
        def draft(self):
            return [97, 98], [1]

    with pytest.raises(ValueError, match="2 tokens but 1 positions"):
        greedy_tokens(model, max_tokens=6, speculator=Wrong(truth))


def test_drafts_beside_a_matcher_and_a_mask(model):
    words = "apple pie|apple tart"
    options = {"constrain": Regex(words), "logit_mask": [0, 258]}
    truth = greedy_tokens(model, **options)
    drafter = Recorded([*truth, 97, 97])
    assert greedy_tokens(model, speculator=drafter, **options) == truth
    assert engine.state.drafted
    assert drafter.told[-1] == ("reset",)


def test_no_drafts_beside_a_constraint_of_your_own(model):
    class Letters:
        def step(self, accepted):
            return brle.allow(range(97, 123))

    truth = greedy_tokens(model, max_tokens=6)
    drafter = Recorded(truth)
    options = {"constrain": Letters(), "max_tokens": 6}
    assert greedy_tokens(model, speculator=drafter, **options) == greedy_tokens(model, **options)
    assert ("draft", 4) not in drafter.told and not engine.state.drafted


def test_the_engines_drafter_runs_in_the_chain(model):
    truth = greedy_tokens(model, max_tokens=6)
    engine.state.calls.clear()
    assert greedy_tokens(model, max_tokens=6, system_speculation=True) == truth
    assert engine.state.calls["take"] > 0
    engine.state.chains_off = True
    assert greedy_tokens(model, max_tokens=6, system_speculation=True) == truth
    assert engine.state.drafted
