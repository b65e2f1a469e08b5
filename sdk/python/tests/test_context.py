import asyncio

import engine
import pytest
from engine_resources import PAGE, VOCAB

from inferlet import (
    Context,
    Embedding,
    Entropy,
    Logits,
    Logprobs,
    PieError,
    Sampler,
    _async,
    scheduling,
    session,
    tools,
)

GREEDY = Sampler.argmax()


def filled(model, count):
    ctx = Context(model).append(range(97, 97 + count))
    ctx.flush()
    return ctx


def test_filling_buffers_and_flush_commits_full_pages(model):
    with Context(model) as ctx:
        ctx.append([1, 2, 3]).fill("ab").fill_tokens([4])
        assert ctx.buffer() == [1, 2, 3, 97, 98, 4] and ctx.seq_len == 0
        ctx.flush()
        assert ctx.buffer() == [] and ctx.seq_len == 6
        assert ctx._raw.committed_page_count() == 1 and ctx._raw.working_page_token_count() == 2
        ctx.flush()  # nothing to do
        assert engine.state.calls["execute"] == 1


def test_a_turn_that_is_open_is_not_opened_again(model):
    with Context(model) as ctx, Context(model) as again:
        plain = again.user("hi").generate(GREEDY, max_tokens=2)
        cued = ctx.user("hi").cue().generate(GREEDY, max_tokens=2)
        assert ctx.buffer() == again.buffer()
        assert cued.collect_tokens() == plain.collect_tokens()
        held = len(ctx.buffer())
        ctx.generate(GREEDY)  # after what was generated, it is another turn
        assert len(ctx.buffer()) > held
        ctx.flush()
        ctx.cue().flush()
        assert ctx.generate(GREEDY, auto_flush=True) and not ctx.buffer()
        ctx.truncate(1)
        ctx.append([97]).generate(GREEDY)
        assert len(ctx.buffer()) > 1


def test_truncate_crosses_pages(model):
    with filled(model, 11) as ctx:
        ctx.truncate(2)
        assert ctx.seq_len == 9
        ctx.truncate(4)
        assert (ctx.seq_len, ctx._raw.committed_page_count()) == (5, 1)
        ctx.append([97] * 4).flush()
        assert ctx.seq_len == 9
        with pytest.raises(ValueError, match=r"n must be at most 9, .*, not 10"):
            ctx.truncate(10)


def test_a_snapshot_holds_the_buffer(model):
    with Context(model) as ctx:
        ctx.append([97] * 6).save("whole")
        assert (ctx.seq_len, ctx.buffer()) == (0, [97] * 6)
        with Context.open(model, "whole") as saved:
            assert (saved.seq_len, saved.buffer()) == (6, [])


def test_a_failed_pass_leaves_everything_as_it_was(model):
    with filled(model, 3) as ctx:
        ctx.append([97, 98])
        engine.state.fail_next = "out of pages"
        with pytest.raises(PieError, match="out of pages"):
            ctx.flush()
        assert (ctx.seq_len, ctx.buffer()) == (3, [97, 98])
        ctx.flush()
        assert ctx.seq_len == 5


def test_a_cancelled_flush_can_be_tried_again(model):
    async def main():
        with Context(model) as ctx:
            ctx.append([97] * 6)
            task = asyncio.create_task(ctx.flush())
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (ctx.seq_len, len(ctx.buffer())) == (0, 6)
            await ctx.flush()
            return ctx.seq_len

    assert _async.run(main()) == 6


def test_one_pass_at_a_time(model):
    async def main():
        with Context(model) as ctx:
            ctx.append([97])
            first = asyncio.create_task(ctx.flush())
            await asyncio.sleep(0)
            with pytest.raises(PieError, match="fork"):
                await ctx.forward().input([98]).execute()
            await first

    _async.run(main())


def test_release_during_a_pass(model):
    async def main():
        ctx = Context(model).append([97])
        cancelled = asyncio.create_task(ctx.flush())
        other = Context(model).append([97])
        finished = asyncio.create_task(other.flush())
        await asyncio.sleep(0)
        ctx.release()
        other.release()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        await finished

    _async.run(main())


def test_forward_reads_samplers_and_probes(model):
    with Context(model) as ctx:
        fwd = ctx.forward().input([97, 98, 99])
        rows = fwd.sample([0, 2], GREEDY)
        draws = fwd.sample([2], Sampler.multinomial(1.0, 4, seed=1))
        logits = fwd.probe(2, Logits())
        logprobs = fwd.probe(2, Logprobs([97, 98]))
        entropy = fwd.probe(2, Entropy())
        embedding = fwd.probe(2, Embedding())
        hidden = fwd.sample([2], Sampler.embedding())
        assert fwd.start_position() == 0
        out = fwd.execute()
        assert len(out.tokens_at(rows)) == 2 and out.token(rows) == out.tokens_at(rows)[0]
        assert len(out.tokens_at(draws)) == 4
        assert len(out.logits(logits)) == VOCAB * 4
        assert len(out.logprobs(logprobs)) == 2
        assert isinstance(out.entropy(entropy), float)
        assert len(out.embedding(embedding)) == 8 and out.embedding(entropy) is None
        assert out.embedding(hidden) == out.embedding(embedding) and out.token(hidden) is None
        assert out.token(entropy) is None and out.logits(entropy) is None
        assert out.tokens == [] and out.auto_sampler is None
        assert ctx.seq_len == 3
        with pytest.raises(PieError, match="executed"):
            fwd.execute()


def test_input_at_does_not_advance(model):
    with filled(model, 3) as ctx:
        fwd = ctx.forward().input([97]).input_at([98, 99], [4, 5])
        handle = fwd.sample([2], GREEDY)
        assert fwd.execute().token(handle) is not None
        assert ctx.seq_len == 4
        with pytest.raises(ValueError, match="before input_at"):
            ctx.forward().input_at([97], [4]).input([98])


def test_empty_pass(model):
    with Context(model) as ctx, pytest.raises(PieError, match="empty input"):
        ctx.forward().execute()


def test_snapshots(model):
    with filled(model, 6) as ctx:
        ctx.save("mine")
        with Context.open(model, "mine") as copy:
            assert copy.seq_len == 6
        Context.take(model, "mine").release()
        assert Context.open(model, "mine") is None
        Context.delete(model, ctx.snapshot())
        with pytest.raises(PieError):
            Context.delete(model, "mine")


def test_fork_copies_the_buffer(model):
    with filled(model, 5).append([1, 2]) as ctx, ctx.fork() as fork:
        fork.append([3])
        assert (fork.seq_len, fork.buffer(), ctx.buffer()) == (5, [1, 2, 3], [1, 2])


def test_a_released_context_says_so(model):
    ctx = Context(model)
    ctx.release()
    ctx.release()
    with pytest.raises(PieError, match="released"):
        ctx.fork()


def test_older_argument_names():
    assert Sampler.top_p(temperature=0.5, top_p=0.9).raw.value == (0.5, 0.9)
    assert Sampler.top_k(temperature=0.5, top_k=7).raw.value == (0.5, 7)
    assert Sampler.min_p(min_p=0.2).raw.value == (0.6, 0.2)
    assert Sampler.top_k_top_p().raw.value == (0.6, 50, 0.95)
    assert Sampler.multinomial(1.0, 3).draws == 3
    assert Sampler.greedy().raw == GREEDY.raw


def test_session_sends_text_as_it_is_and_the_rest_as_json():
    session.send("hé")
    session.send({"n": [1, "é"]})
    assert engine.state.sent == ["hé", '{"n": [1, "é"]}']


def test_scheduling_reads_numbers(model):
    with Context(model) as ctx:
        assert scheduling.rent(ctx) == 0.0 and scheduling.balance(model) == 64.0


def kinds_before(ctx):
    """The template is told the kinds of the turns before the next one."""
    ctx.user("?")
    return engine.state.before


def test_pending_turns_are_written_together(model):
    with Context(model) as ctx:
        ctx.system("s").user("u").cue()
        assert engine.state.calls["extend"] == 3 and engine.state.before == []
        together = ctx.buffer()
    with Context(model) as ctx:
        for turn in ("s", "u"):
            ctx.append([])
            ctx.system("s") if turn == "s" else ctx.user("u")
        ctx.append([]).cue()
        assert ctx.buffer() == together and engine.state.before == ["SYSTEM", "USER"]


def test_what_touches_the_buffer_settles_turns(model):
    with Context(model) as ctx:
        ctx.user("a").append([97])
        assert kinds_before(ctx) == ["USER"]
    with Context(model) as ctx:
        ctx.user("a")
        ctx.flush()
        assert kinds_before(ctx) == ["USER"]
        ctx.truncate(0)
        assert kinds_before(ctx) == ["USER", "USER"]
    with Context(model) as ctx:
        ctx.user("a").cue().append([98]).seal()
        assert kinds_before(ctx) == ["USER", "ASSISTANT"]
    with Context(model) as ctx:
        ctx.user("a")
        ctx.generate_text(GREEDY, max_tokens=2)
        assert kinds_before(ctx) == ["USER", "CUE"]


def test_forks_and_snapshots_know_their_turns(model):
    with Context(model) as ctx:
        ctx.user("a").cue()
        with ctx.fork() as fork:
            fork.append([97])
            assert kinds_before(fork) == ["USER", "CUE"]
        assert kinds_before(ctx) == []  # still pending there
    with Context(model) as ctx:
        ctx.append([97])
        ctx.flush()
        ctx.save("kept")
    with Context.open(model, "kept") as ctx:
        assert kinds_before(ctx) == ["USER", "ASSISTANT"]


def test_a_turn_that_the_template_refuses_among_others_stands_alone(model):
    with Context(model) as ctx:
        ctx.user("a").user("refused").user("b")
        assert engine.state.before == ["USER", "USER"]
        assert ctx.buffer().count(engine.IM_START) == 3


def test_a_turn_lists_its_calls_and_an_answer_names_its_call(model):
    add = tools.Call("add", '{"y": 1.0, "x": 2}', "call_7")
    with Context(model) as ctx:
        ctx.assistant_calls("Wait.", [add, tools.Call('a "b"', {"é": [1]}), tools.Call("now", " ")])
        (said,) = engine.state.turns
        assert (said.kind.name, said.text, said.name) == ("ASSISTANT", "Wait.", "")
        assert said.tools == [
            '{"arguments": {"y": 1.0, "x": 2}, "id": "call_7", "name": "add"}',
            '{"arguments": {"é": [1]}, "id": "", "name": "a \\"b\\""}',
            '{"arguments": {}, "id": "", "name": "now"}',
        ]
        ctx.answer_call(add, {"sum": 3}).answer_call(tools.Call("now"), "noon")
        answers = [(given.name, given.text, given.tools) for given in engine.state.turns[1:]]
        assert answers == [("add", '{"sum": 3}', ["call_7"]), ("now", "noon", [])]
        assert all(given.kind.name == "ANSWER" for given in engine.state.turns[1:])
    with pytest.raises(PieError, match="released"):
        ctx.assistant_calls("", [add])


def test_cached_tokens_are_those_of_the_engine(model):
    with Context(model) as ctx:
        assert ctx.cached_tokens == 0
        ctx.append(range(97, 103)).flush()
        assert ctx.cached_tokens == PAGE
    with pytest.raises(PieError, match="released"):
        _ = ctx.cached_tokens


def test_pages_are_changed_by_hand_and_the_context_follows(model):
    with Context(model) as ctx:
        raw = ctx.inner()
        raw.reserve_working_pages(3)
        raw.release_working_pages(1)
        assert raw.working_page_count() == 2
        with pytest.raises(PieError, match="cannot release 3 of 2"):
            raw.release_working_pages(3)
        with pytest.raises(ValueError, match="n must be"):
            raw.reserve_working_pages(-1)
        ctx.append(range(97, 103)).flush()
        assert (raw.committed_page_count(), raw.working_page_token_count()) == (1, 2)
        raw.truncate_working_page_tokens(1)
        assert ctx.seq_len == PAGE + 1
        raw.commit_working_pages(0)
    with pytest.raises(PieError, match="released"):
        raw.working_page_count()


def test_template_options_are_json_for_the_engine(model):
    for value, text in [(False, "false"), ("high", '"high"'), (3, "3"), (0.5, "0.5"), (None, None)]:
        model.template_option("variable", value)
        assert engine.state.options["variable"] == text
    with pytest.raises(PieError, match="sets itself"):
        model.template_option("messages", True)
