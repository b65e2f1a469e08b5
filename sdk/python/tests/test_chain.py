"""Generations that the engine runs by itself are those of the loop over steps."""

import asyncio

import engine
import pytest

from inferlet import Context, Entropy, PieError, Sampler, _async

GREEDY = Sampler.argmax()


async def by_steps(generator):
    return [token async for step in generator for token in (await step.execute()).tokens]


def where(ctx, generator):
    raw = ctx._raw
    counts = (raw.committed_page_count(), raw.working_page_count(), raw.working_page_token_count())
    return counts, ctx.seq_len, ctx.buffer(), generator.tokens_generated, generator.is_done


@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        (GREEDY, {"max_tokens": 1}),
        (GREEDY, {"max_tokens": 9}),
        (GREEDY, {}),  # up to the end of the turn
        (GREEDY, {"stop": [], "max_tokens": 40}),
        (Sampler.multinomial(1.0), {"seed": 5, "max_tokens": 13}),
        (GREEDY, {"max_tokens": 0}),
        (GREEDY, {"logit_mask": [97, 4], "stop": [99], "max_tokens": 30, "horizon": 7}),
    ],
)
def test_the_same_tokens_and_context(model, sampler, options):
    async def main():
        with Context(model) as a, Context(model) as b:
            one = a.user("hi").generate(sampler, **options)
            two = b.user("hi").generate(sampler, **options)
            assert await one.collect_tokens() == await by_steps(two)
            assert where(a, one) == where(b, two)

    _async.run(main())
    assert not engine.left_behind()


def test_an_engine_that_runs_no_chains_runs_step_by_step(model):
    with Context(model) as a, Context(model) as b:
        one = a.user("hi").generate(GREEDY, max_tokens=9)
        tokens = one.collect_tokens()
        engine.state.chains_off = True
        two = b.user("hi").generate(GREEDY, max_tokens=9)
        assert two.collect_tokens() == tokens
        assert where(a, one) == where(b, two)
    assert not engine.left_behind()


def test_wakes_for_several_at_once(model):
    with Context(model) as ctx:
        ctx.user("hi").generate(GREEDY, max_tokens=33).stop([]).collect_tokens()
    assert engine.state.calls["poll"] == 5  # the first token, then eight at a time


def test_text_ends_where_the_turn_does_also_without_stops(model):
    with Context(model) as a, Context(model) as b:
        one = a.user("hi").generate(GREEDY, max_tokens=200).stop([])
        two = b.user("hi").generate(GREEDY, max_tokens=200).stop([])
        two.probe_each_step(0, Entropy())  # asked step by step
        assert one.collect_text() == two.collect_text()
        assert where(a, one) == where(b, two)


def test_what_is_asked_between_tokens_runs_step_by_step(model):
    with Context(model) as ctx:
        generator = ctx.user("hi").generate(GREEDY, max_tokens=5)
        generator.probe_each_step(0, Entropy())
        generator.collect_tokens()
    assert engine.state.calls["take"] == 0


def test_a_failure_leaves_the_context_as_it_was(model):
    with Context(model) as ctx:
        generator = ctx.user("hi").generate(GREEDY, max_tokens=5)
        buffer = ctx.buffer()
        engine.state.fail_next = "out of pages"
        with pytest.raises(PieError, match="out of pages"):
            generator.collect_tokens()
        assert (ctx.seq_len, ctx.buffer()) == (0, buffer)
        assert len(ctx.generate(GREEDY, auto_flush=False, max_tokens=5).collect_tokens()) == 5
    assert not engine.left_behind()


@pytest.mark.parametrize("passes", [0.5, 1.5, 9.5])
def test_cancelled_in_the_middle(model, passes):
    def generate(ctx, tokens):
        return ctx.generate(GREEDY, max_tokens=tokens, auto_flush=False).stop([])

    async def main():
        with Context(model) as a, Context(model) as b:
            whole = await generate(a.user("hi").cue(), 30).collect_tokens()
            b.user("hi").cue()
            prompt = len(b.buffer())
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(generate(b, 30).collect_tokens(), passes / 1000)
            had = b.seq_len + len(b.buffer()) - prompt
            assert had == {0.5: 0, 1.5: 1, 9.5: 9}[passes]
            assert await generate(b, 30 - had).collect_tokens() == whole[had:]

    _async.run(main())
    assert not engine.left_behind()
