"""Measures the OpenAI API and HTTP inferlets of `pie serve`, beside other servers on this machine.

The servers are measured in turn, by the same clients (`pie-http-bench`). A ratio is the median of
the rounds' ratios.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import serve
from peers import llamacpp_server, openvino_peer, wasmtime_cli
from peers.llamacpp import Unavailable

from bakery import toolchain

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "build" / "bin" / "pie-http-bench"
GUESTS = ROOT / "build" / "guests"
MODEL = "models/smollm2-135m-instruct"  # in the cache
MODEL_NAME = "default"  # the name of the model, as a server without a config calls it
THREADS = 2
ROUNDS = 3
CLIENTS = (1, 8, 32)
TOKENS = 48
TURNS, CONVERSATIONS, TURN_TOKENS = 8, 4, 24
TAX_ROUNDS, TAX_TOKENS = 9, 128
HELLO_CONNECTIONS, HELLO_REQUESTS = 64, 20_000

# The figures that README.md shows, in this order. build/bench.json has more.
KEYS = (
    "openai_tps_1_ratio_llamacpp",
    "openai_tps_8_ratio_llamacpp",
    "openai_tps_32_ratio_llamacpp",
    "openai_tps_8_ratio_openvino",
    "openai_turns8_ratio_llamacpp",
    "openai_tax",
    "http_hello_ratio_wasmtime",
)
# Key → the aim: an upper bound (<=) or a lower bound (>=).
AIMS = {
    "openai_tps_8_ratio_llamacpp": (">=", 2),
    "openai_tps_32_ratio_llamacpp": (">=", 2),
    "openai_tps_8_ratio_openvino": (">=", 2),
    "openai_turns8_ratio_llamacpp": (">=", 4),
    "openai_tax": ("<=", 1.02),
    "http_hello_ratio_wasmtime": (">=", 1),
}


def measure(rounds: int = ROUNDS) -> dict[str, float]:
    figures = chat(rounds) | tax() | hello(rounds)
    return {key: figures.pop(key) for key in KEYS if key in figures} | figures


def bench(mode: str, port: int, **options: object) -> dict[str, float]:
    words = [str(word) for key, value in options.items() for word in (f"--{key}", value)]
    done = subprocess.run(
        [BENCH, mode, "--port", str(port), *words], stdout=subprocess.PIPE, check=True
    )
    return json.loads(done.stdout)


# --- chat completions against other servers -------------------------------------------------------


def chat(rounds: int) -> dict[str, float]:
    model = next(toolchain.cache_dir(MODEL).glob("*.gguf"))
    figures: dict[str, float] = {}
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(serve.serving())[0]
        for name, peer, clients in (
            ("llamacpp", _llamacpp, CLIENTS),
            ("openvino", _openvino, (8,)),
        ):
            try:
                with peer(model) as port:
                    figures |= _streams(own, name, port, clients, rounds)
                    if name == "llamacpp":
                        figures |= _conversations(own, port)
            except (Unavailable, subprocess.CalledProcessError, OSError) as reason:
                print(f"peers: {name} is not available: {reason}", flush=True)
    return figures


@contextlib.contextmanager
def _llamacpp(model: Path) -> Iterator[int]:
    # Without the last option, a new request ends the one that is being answered.
    more = ("--chat_format", "chatml", "--interrupt_requests", "false")
    with llamacpp_server.serving(model, THREADS, 2048, *more) as url:
        yield int(url.rsplit(":", 1)[1])


@contextlib.contextmanager
def _openvino(model: Path) -> Iterator[int]:
    script = Path(openvino_peer.__file__).with_name("openvino_server.py")
    process = subprocess.Popen(
        [openvino_peer.python(), script, model, str(THREADS)], stdout=subprocess.PIPE, text=True
    )
    try:
        line = process.stdout.readline()
        if not line:
            raise Unavailable("its server did not start")
        yield int(line)
    finally:
        process.terminate()
        process.wait()


def _streams(
    own: int, name: str, other: int, counts: tuple[int, ...], rounds: int
) -> dict[str, float]:
    """Tokens a second of streams, and the time to their first token."""
    figures: dict[str, float] = {}
    for port in (own, other):
        _stream(port, 1)  # warm
    for clients in counts:
        pairs = [(_stream(own, clients), _stream(other, clients)) for _ in range(rounds)]
        ratios = [ours["tps"] / theirs["tps"] for ours, theirs in pairs]
        figures[f"openai_tps_{clients}_ratio_{name}"] = statistics.median(ratios)
        for suffix, index in (("", 0), (f"_{name}", 1)):
            for key, figure in (("tps", "tps"), ("ttft_ms", "ttft")):
                values = [one[index][key] for one in pairs]
                unit = "_ms" if figure == "ttft" else ""
                figures[f"openai_{figure}_{clients}{suffix}{unit}"] = statistics.median(values)
    return figures


def _stream(port: int, clients: int) -> dict[str, float]:
    # "$N" is another number in every request, so no two answers are the same.
    asked = "Tell me a long story about ship number $N."
    body = {
        "model": MODEL_NAME,
        "messages": [{"role": "user", "content": asked}],
        "max_tokens": TOKENS,
        "temperature": 0,
        "stream": True,
    }
    path = "/v1/chat/completions"
    return bench("stream", port, path=path, clients=clients, body=json.dumps(body))


def _conversations(own: int, other: int) -> dict[str, float]:
    """Conversations of eight turns at the same time. A request brings the whole conversation."""
    ours, theirs = (_turns(port) for port in (own, other))
    return {
        "openai_turns8_ratio_llamacpp": theirs / ours,
        "openai_turns8_ms_per_token": ours * 1e3,
        "openai_turns8_ms_per_token_llamacpp": theirs * 1e3,
    }


def _turns(port: int) -> float:
    """Seconds a token that was said."""
    said: list[int] = []
    failures: list[BaseException] = []

    def talk(number: int) -> None:
        messages = [{"role": "system", "content": f"You tell the story of ship {number}."}]
        try:
            for turn in range(TURNS):
                asked = f"This is question {turn}. What happened to the captain, and to the crew?"
                messages.append({"role": "user", "content": asked})
                answer = _ask(port, messages)
                said.append(answer["usage"]["completion_tokens"])
                messages.append(answer["choices"][0]["message"])
        except (OSError, ValueError, KeyError) as failure:
            failures.append(failure)

    threads = [threading.Thread(target=talk, args=(i,)) for i in range(CONVERSATIONS)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise Unavailable(f"a request failed: {failures[0]}")
    return (time.monotonic() - start) / sum(said)


def _ask(port: int, messages: list[dict]) -> dict:
    body = {"model": MODEL_NAME, "messages": messages, "max_tokens": TURN_TOKENS, "temperature": 0}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=300) as reply:
        return json.load(reply)


# --- what the API costs ---------------------------------------------------------------------------


def tax() -> dict[str, float]:
    """The time per token of the API ÷ that of an inferlet that a client launches, in turn."""
    prompt = "Tell me about the sea."
    direct = {"prompt": prompt, "max_tokens": TAX_TOKENS, "temperature": 0.6}
    body = {
        "model": MODEL_NAME,
        "messages": [
            {"role": "system", "content": "You are a helpful assistant."},
            {"role": "user", "content": prompt},
        ],
        "max_tokens": TAX_TOKENS,
        "temperature": 0.6,
        "top_p": 0.95,
        "stream": True,
    }
    with serve.serving() as (port, _):

        def launched() -> float:
            program = "text-completion@0.1.0"
            words = json.dumps(direct)
            return serve.bench(port, "stream", program=program, input=words, repeat=2)["tpot_ms"]

        def asked() -> float:
            path = "/v1/chat/completions"
            stream = bench("stream", port, path=path, body=json.dumps(body), repeat=2)
            return stream["tpot_ms"]

        return {"openai_tax": _in_turn(asked, launched, TAX_ROUNDS)}


def _in_turn(one: Callable[[], float], other: Callable[[], float], rounds: int) -> float:
    """The median of the ratios of a figure to the mean of another, taken before and after it."""
    one(), other()  # warm
    ratios = []
    before = other()
    for _ in range(rounds):
        between = one()
        after = other()
        ratios.append(2 * between / (before + after))
        before = after
    return statistics.median(ratios)


# --- HTTP inferlets -------------------------------------------------------------------------------


def hello(rounds: int) -> dict[str, float]:
    """Requests a second that one component answers, here as a daemon and in `wasmtime serve`."""
    component = GUESTS / "bench-hello.wasm"
    with contextlib.ExitStack() as stack:
        server, _ = stack.enter_context(serve.serving("--dummy"))
        own = asyncio.run(_daemon(server))
        figures = {f"http_hello_{key}": value for key, value in _gets(own).items()}
        try:
            other = stack.enter_context(wasmtime_cli.serving(component))
            pairs = [(_gets(own), _gets(other)) for _ in range(rounds)]
        except (Unavailable, subprocess.CalledProcessError) as reason:
            print(f"peers: wasmtime is not available: {reason}", flush=True)
            return figures
        for key in ("per_s", "p99_ms"):
            for suffix, index in (("", 0), ("_wasmtime", 1)):
                values = [one[index][key] for one in pairs]
                figures[f"http_hello_{key}{suffix}"] = statistics.median(values)
        ratios = [ours["per_s"] / theirs["per_s"] for ours, theirs in pairs]
        return figures | {"http_hello_ratio_wasmtime": statistics.median(ratios)}


def _gets(port: int) -> dict[str, float]:
    return bench("get", port, path="/", clients=HELLO_CONNECTIONS, count=HELLO_REQUESTS)


async def _daemon(server: int) -> int:
    """Opens a port for the component. Returns it."""
    sys.path.insert(0, str(ROOT / "client" / "python" / "src"))
    from pie_client import PieClient

    async with PieClient(f"ws://127.0.0.1:{server}", username="bench") as client:
        daemon = await client.launch_daemon("bench-hello@0.1.0", 0)
        for process in await client.list_processes():
            if process["process_id"] == daemon:
                return process["port"]
    raise RuntimeError("the daemon has no port")
