import array
import asyncio

import engine
import pytest
from engine_resources import PASS_NS

from inferlet import (
    Context,
    Distribution,
    Entropy,
    Event,
    Logits,
    PieError,
    Sampler,
    _async,
    brle,
    chat,
    messaging,
)

GREEDY = Sampler.argmax()


def run(coro):
    return _async.run(coro)


def greedy_tokens(model, **options):
    with Context(model) as ctx:
        return ctx.user("hi").generate(GREEDY, **options).collect_tokens()


def test_tokens_text_and_steps_agree(model):
    async def main():
        with Context(model) as a, Context(model) as b, Context(model) as c:
            tokens = await a.user("hi").generate(GREEDY, max_tokens=9).collect_tokens()
            text = await b.user("hi").generate(GREEDY, max_tokens=9).collect_text()
            joined = []
            generator = c.user("hi").generate(GREEDY, max_tokens=9)
            async for step in generator:
                out = await step.execute()
                assert out.tokens == [out.token(out.auto_sampler)]
                joined += out.tokens
            assert generator.is_done and generator.tokens_generated == 9
            return tokens, text, joined

    tokens, text, joined = run(main())
    assert len(tokens) == 9 and tokens == joined
    assert text == bytes(tokens).decode()


def test_steps_of_the_only_task_are_repeated_in_one_call(model):
    async def stepped(sampler=GREEDY, **options):
        tokens = []
        with Context(model) as ctx:
            async for step in ctx.user("hi").generate(sampler, max_tokens=9, **options):
                out = await step.execute()
                assert out.tokens == out.tokens_at(out.auto_sampler) == [out.raw.slots[0].value]
                tokens += out.tokens
        return tokens

    async def beside_a_timer():
        sleeper = asyncio.create_task(asyncio.sleep(1))
        tokens = await stepped()
        sleeper.cancel()
        return tokens

    async def together():
        return await asyncio.gather(stepped(), stepped())

    calls = engine.state.calls
    expected = greedy_tokens(model, max_tokens=9)
    assert run(stepped()) == expected
    assert calls["repeat"] == 8  # all but the first
    seeded = Sampler.top_p(1.0, 0.9)
    tokens = run(stepped(seeded, seed=3))
    assert calls["repeat"] == 16
    assert tokens == tokens_of(model, seeded, seed=3)
    # Where another task may run, no step blocks it.
    assert run(beside_a_timer()) == expected
    assert run(together()) == [expected, expected]
    assert calls["repeat"] == 16


def tokens_of(model, sampler, **options):
    with Context(model) as ctx:
        return ctx.user("hi").generate(sampler, max_tokens=9, **options).collect_tokens()


def test_a_repeated_step_that_fails_leaves_the_context_as_it_was(model):
    with Context(model) as ctx:
        generator = ctx.user("hi").generate(GREEDY, max_tokens=9)
        first = [next(generator), next(generator)]
        length, buffer = ctx.seq_len, ctx.buffer()
        engine.state.fail_next = "the device is gone"
        with pytest.raises(PieError, match="the device is gone"):
            next(generator)
        assert (ctx.seq_len, ctx.buffer()) == (length, buffer)
        rest = list(generator)
    assert [token for [token] in first + rest] == greedy_tokens(model, max_tokens=9)


def test_blocking_face_gives_the_same(model):
    tokens = greedy_tokens(model, max_tokens=5)
    with Context(model) as ctx:
        assert ctx.user("hi").generate_text(GREEDY, max_tokens=5) == bytes(tokens).decode()
    with Context(model) as ctx:
        assert [t for [t] in ctx.user("hi").generate(GREEDY, max_tokens=5)] == tokens
    with Context(model) as ctx:
        assert ctx.user("hi").generate(GREEDY, max_tokens=5).tokens() == tokens


def test_the_chat_stop_is_cut_off(model):
    tokens = greedy_tokens(model)
    assert tokens and engine.IM_END not in tokens
    with Context(model) as ctx:
        generator = ctx.user("hi").generate(GREEDY)
        generator.collect_tokens()
        assert generator.is_done
        assert ctx.buffer() == []  # the last real token went into the pass that chose the stop
        assert generator.tokens_generated == len(tokens)


def test_stops_are_added_to_the_models_own(model):
    tokens = greedy_tokens(model)
    never = next(token for token in range(256) if token not in tokens)
    assert greedy_tokens(model, stop=[never]) == tokens
    with Context(model) as ctx:
        g = ctx.user("hi").cue().generate(GREEDY, auto_flush=False, max_tokens=200)
        assert g.collect_tokens() == tokens
    with Context(model) as ctx:
        past = ctx.user("hi").generate(GREEDY, max_tokens=len(tokens) + 1).stop([])
        assert past.collect_tokens() == [*tokens, engine.IM_END]


def test_reasoning_and_tools_need_the_decoder(model):
    with Context(model) as ctx:
        for option in ("reasoning", "tool_use"):
            with pytest.raises(ValueError, match="decode=True"):
                ctx.user("hi").generate(GREEDY, **{option: True})


def test_stops_can_be_replaced_and_added(model):
    tokens = greedy_tokens(model, max_tokens=6)
    stop = tokens[3]
    until = tokens[: tokens.index(stop)]
    assert greedy_tokens(model, max_tokens=6, stop=[stop]) == until
    with Context(model) as ctx:
        ctx.user("hi")
        assert ctx.generate(GREEDY).max_tokens(6).add_stop([stop]).collect_tokens() == until


def test_the_last_token_waits_in_the_buffer(model):
    with Context(model) as ctx:
        tokens = ctx.user("hi").generate(GREEDY, max_tokens=3).collect_tokens()
        assert ctx.buffer() == tokens[-1:]


def test_manual_choice_equals_the_samplers(model):
    async def main():
        with Context(model) as ctx:
            generator = ctx.user("hi").generate(GREEDY, max_tokens=7)
            tokens = []
            async for step in generator:
                handle = step.clear_sampler().probe(0, Logits())
                out = await step.execute()
                assert out.auto_sampler is None and out.tokens == []
                values = array.array("f", out.logits(handle))
                tokens += generator.accept([max(range(len(values)), key=values.__getitem__)])
            return tokens

    assert run(main()) == greedy_tokens(model, max_tokens=7)


def test_a_cleared_step_without_accept_says_what_to_do(model):
    async def main():
        with Context(model) as ctx:
            async for step in ctx.user("hi").generate(GREEDY):
                await step.clear_sampler().execute()

    with pytest.raises(PieError, match=r"accept\(\)"):
        run(main())


class Told:
    """A constraint that allows everything and notes what it is told."""

    def __init__(self):
        self.told = []

    def step(self, accepted):
        self.told.append(accepted)
        return []


def test_accept_takes_the_place_of_what_the_step_chose(model):
    async def main():
        constraint = Told()
        with Context(model) as ctx:
            generator = ctx.user("hi").generate(GREEDY, max_tokens=3, constrain=constraint)
            start = len(ctx.buffer())
            async for step in generator:
                before = generator.tokens_generated
                out = await step.execute()
                assert out.tokens != [122]
                assert generator.accept([122]) == [122]
                assert generator.tokens_generated == before + 1
                assert ctx.buffer() == [122]
            assert generator.is_done and generator.tokens_generated == 3
            assert ctx.seq_len == start + 2
        return constraint.told

    assert run(main()) == [[], [122], [122]]


def test_accept_can_go_on_after_a_stop_and_stop_in_place_of_a_token(model):
    async def main():
        with Context(model) as ctx:
            generator = ctx.user("hi").generate(GREEDY)
            accepted = []
            async for step in generator:
                out = await step.execute()
                if out.tokens:
                    continue
                assert generator.is_done  # the model chose to stop
                accepted += generator.accept([122])
                assert not generator.is_done and ctx.buffer() == [122]
                break
            async for step in generator:
                await step.execute()
                accepted += generator.accept([engine.IM_END])
            assert generator.is_done and ctx.buffer() == []
        return accepted

    assert run(main()) == [122]


def test_further_accepts_add_up_to_the_end(model):
    async def main():
        with Context(model) as ctx:
            generator = ctx.user("hi").generate(GREEDY, max_tokens=3)
            async for step in generator:
                await step.execute()
                assert generator.accept([97, 98]) == [97, 98]
                assert generator.accept([99, 100]) == [99]
                assert generator.accept([101]) == [] and generator.is_done
                assert ctx.buffer() == [97, 98, 99]
            assert generator.tokens_generated == 3
            assert generator.accept([97]) == []

    run(main())


def test_what_was_flushed_cannot_be_replaced(model):
    async def main():
        with Context(model) as ctx:
            generator = ctx.user("hi").generate(GREEDY, max_tokens=4)
            async for step in generator:
                out = await step.execute()
                await ctx.flush()
                assert generator.accept([122]) == [122]
                assert ctx.buffer() == [122]
            assert generator.tokens_generated == 4 and out.tokens != [122]

    run(main())


def test_steps_must_be_executed(model):
    async def main():
        with Context(model) as ctx:
            async for _ in ctx.user("hi").generate(GREEDY):
                pass

    with pytest.raises(PieError, match="not executed"):
        run(main())


def test_constraints_are_told_and_obeyed(model):
    class Only:
        def __init__(self, ids):
            self.mask, self.told = brle.allow(ids), []

        def step(self, accepted):
            self.told.append(accepted)
            return self.mask

    both = Only([97, 98, 99])
    with Context(model) as ctx:
        ctx.user("hi")
        tokens = ctx.generate(
            GREEDY, max_tokens=4, constrain=[both, Only([98, 99])], logit_mask=brle.allow([99, 97])
        ).collect_tokens()
    assert tokens == [99] * 4
    assert both.told == [[], [99], [99], [99]]


def test_probes_of_every_step_follow_the_sampler(model):
    async def main():
        with Context(model) as ctx:
            generator = ctx.user("hi").generate(GREEDY, max_tokens=3)
            every = generator.probe_each_step(0, Entropy())
            seen = []
            async for step in generator:
                once = step.probe(0, Distribution(1.0, 5))
                out = await step.execute()
                assert len(out.distribution(once)[0]) == 5
                assert out.token(every) is None and out.entropy(once) is None
                seen.append(out.entropy(every))
            return seen

    assert all(isinstance(entropy, float) for entropy in run(main()))


def test_seeds(model):
    def draw(seed):
        with Context(model) as ctx:
            g = ctx.user("hi").generate(Sampler.top_p(1.0, 0.95), seed=seed, max_tokens=6).stop([])
            return g.collect_tokens()

    assert draw(2**64 - 1) == draw(2**64 - 1)
    assert draw(3) != draw(4)


def test_a_step_that_asks_for_nothing_else_is_one_call_and_gives_the_same(model):
    with Context(model) as short, Context(model) as probed:
        engine.state.calls.clear()
        tokens = list(short.user("hi").generate(GREEDY, max_tokens=5))
        assert engine.state.calls["begin"] == 5
        g = probed.user("hi").generate(GREEDY, max_tokens=5)
        g.probe_each_step(0, Entropy())
        assert list(g) == tokens
        assert engine.state.calls["begin"] == 5


def test_events_end_with_done(model):
    with Context(model) as ctx:
        events = list(ctx.user("hi").generate(GREEDY, decode=True, max_tokens=4))
    assert [type(event) for event in events] == [Event.Text] * 4 + [Event.Done]
    assert events[-1].text == "".join(event.text for event in events[:-1])


def test_forks_generate_at_once(model):
    async def main():
        with Context(model) as ctx:
            await ctx.user("hi").flush()
            forks = [ctx.fork().append([97 + i]) for i in range(3)]
            before = engine.state.now
            texts = await asyncio.gather(
                *(fork.generate(GREEDY, max_tokens=4).collect_text() for fork in forks)
            )
            assert engine.state.now - before == 4 * PASS_NS
            for fork in forks:
                fork.release()
            return texts

    assert len(set(run(main()))) == 3


def test_a_decoder_event_matches(model):
    match chat.Decoder(model).feed([97, 98]):
        case chat.Event.Delta(text=text):
            assert text == "ab"
        case _:
            raise AssertionError


def test_samplers_that_choose_nothing_are_refused(model):
    with Context(model) as ctx, pytest.raises(ValueError, match="chooses no token"):
        ctx.generate(Sampler.embedding())


def test_the_engine_is_told_what_to_expect(model):
    with Context(model) as ctx:
        ctx.user("hi").generate(GREEDY, max_tokens=6).collect_tokens()
        ctx.user("hi").generate(GREEDY, max_tokens=6, horizon=4).collect_tokens()
        ctx.user("hi").generate(GREEDY).collect_tokens()
        ctx.user("hi").generate(GREEDY, max_tokens=9).horizon(3).collect_tokens()
    assert engine.state.expected == [(6.0, 1.0), (4.0, 0.0), (None, 1.0), (3.0, 0.0)]
    assert engine.state.bids == []


def test_bids_by_hand_and_idleness(model):
    with Context(model) as ctx:
        ctx.set_bid(7.0)
        with pytest.raises(PieError, match="at least 0"):
            ctx.set_bid(-1.0)
        with ctx.idle(), ctx.idle():
            pass
    assert engine.state.bids == [7.0, "idle", "as before"]


def test_a_full_queue_is_an_error():
    for _ in range(engine.QUEUE_LIMIT):
        messaging.push("topic", "message")
    with pytest.raises(PieError, match="full"):
        messaging.push("topic", "one too many")
