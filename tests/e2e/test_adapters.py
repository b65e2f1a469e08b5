"""Adapters: names that outlive the engine, files of the PEFT package, tuning, and `pie adapter`."""

from __future__ import annotations

import json
import math
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import configuration
import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
Tensors = dict[str, tuple[list[int], list[float]]]

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tests" / "e2e" / "adapter-script" / "Pie.toml"
MASK = (1 << 64) - 1
TUNED = {"do": "initialize", "rank": 2, "alpha": 4.0, "population": 4, "mu": 0.5, "sigma": 0.25}
UPDATE = {"do": "update", "scores": [4, 1, 3, 2], "seeds": [7, -7, 8, -8], "max_sigma": 1.0}


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    configuration.write(tmp_path / "home", "[runtime]\nallow_fs = true\n")
    return {"PIE_HOME": str(tmp_path / "home")}


@pytest.fixture
def script(run: Run, home) -> Callable[..., list[str]]:
    """Runs steps in one inferlet on the dummy model. Returns the answers."""

    def run_steps(*steps: dict) -> list[str]:
        component = ROOT / "build" / "guests" / "e2e-adapter-script.wasm"
        assert component.is_file(), f"{component} is missing: run `make guests`"
        flags = ("--path", component, "--manifest", SCRIPT)
        done = run("run", "--dummy", *flags, "--input", json.dumps({"steps": steps}), env=home)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run_steps


def read_safetensors(path: Path) -> Tensors:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        numbers = list(struct.unpack(f"<{(end - begin) // 4}f", data[begin:end]))
        tensors[name] = (entry["shape"], numbers)
    return tensors


# The definition in docs/guide/adapters.md, written a second time.


def mix(*words: int) -> int:
    x = words[0] & MASK
    for i, _ in enumerate(words):
        x = (x + 0x9E3779B97F4A7C15) & MASK
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        x ^= x >> 31
        if i + 1 < len(words):
            x ^= words[i + 1] & MASK
    return x


def noise(seed: int, layer: int, target: int, row: int, column: int) -> int:
    key = mix(abs(seed), layer, target)
    u = mix(key, row // 64) >> (row % 64) & 1
    v = mix(key, (1 << 32) + column // 64) >> (column % 64) & 1
    return (1 if u == v else -1) * (1 if seed > 0 else -1 if seed < 0 else 0)


def weights_of(scores: list[float], mu_fraction: float) -> list[float]:
    mu = max(1, math.floor(len(scores) * mu_fraction))
    by_rank = [max(0.0, math.log(mu + 0.5) - math.log(i + 1)) for i in range(mu)]
    by_rank += [0.0] * (len(scores) - mu)
    total = sum(by_rank)
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    weights = [0.0] * len(scores)
    for rank, i in enumerate(order):
        equal = [r for r, j in enumerate(order) if scores[j] == scores[i]]
        weights[i] = sum(by_rank[r] for r in equal) / len(equal) / total
        assert rank in equal
    return weights


def test_an_adapter_outlives_its_engine(script):
    made = script(
        {"do": "create", "name": "a"},
        TUNED,
        {"do": "generate", "plain": True},
        {"do": "generate"},
        {"do": "generate", "seed": 7},
        UPDATE,
        {"do": "generate"},
    )
    assert made[3] == made[2], "B is 0"
    assert made[4] != made[2]
    assert made[6] != made[2]
    again = script(
        {"do": "open", "name": "a"},
        {"do": "generate"},
        {"do": "generate", "seed": 7},
        {"do": "open", "name": "b"},
    )
    assert again[:2] == ["found", made[6]]
    assert again[2] != made[4], "the noise is added to the new weights"
    assert again[3] == "none"


@pytest.mark.parametrize("scores", [[4, 1, 3, 2], [1, 1, 5, 1], [2, 2, 2, 2]])
def test_updates_are_as_the_guide_says(run: Run, script, home, tmp_path, scores):
    seeds = [[7, -7, 8, -8], [9, -9, 1 << 40, -(1 << 40)], [3, 0, -5, 6]]
    update = {"do": "update", "max_sigma": 0.3}
    steps = [update | {"scores": scores, "seeds": s} for s in seeds]
    steps[1]["scores"] = [score + 10 for score in scores]  # all better than the last generation
    assert script({"do": "create", "name": "a"}, TUNED, *steps) == ["done"] * 5
    out = tmp_path / "exported"
    assert run("adapter", "export", "a", str(out), env=home).returncode == 0
    tensors = read_safetensors(out / "adapter_model.safetensors")

    sigma, success, last = 0.25, 0.0, None
    sigmas = []
    for step in steps:
        sigmas.append(sigma)
        current = sorted(step["scores"])
        if last is not None:
            median = (last[1] + last[2]) / 2
            better = sum(1 if s > median else 0.5 if s == median else 0 for s in current)
            success = 0.7 * success + 0.3 * (2 * better / 4 - 1)
            sigma = max(sigma * math.exp(success / 4), 0.25 / 16)
        sigma, last = min(sigma, 0.3), current

    modules = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    parts = [*["self_attn"] * 4, *["mlp"] * 3]
    for layer in range(2):
        for target, (part, module) in enumerate(zip(parts, modules, strict=True)):
            name = f"base_model.model.model.layers.{layer}.{part}.{module}.lora_B.weight"
            (rows, rank), numbers = tensors[name]
            for i, number in enumerate(numbers):
                expected = 0.0
                for step, size in zip(steps, sigmas, strict=True):
                    weights = weights_of(step["scores"], 0.5)
                    for weight, seed in zip(weights, step["seeds"], strict=True):
                        expected += size * weight * noise(seed, layer, target, i // rank, i % rank)
                assert number == pytest.approx(expected, abs=1e-5), (name, rows, i)
    info = json.loads(run("adapter", "info", "a", env=home).stdout)
    assert info["zo"]["generations"] == 3
    assert info["zo"]["sigma"] == pytest.approx(sigma, rel=1e-5)


def test_list_info_export_import_delete(run: Run, script, home, tmp_path):
    assert "no adapters yet" in run("adapter", "list", env=home).stdout
    tuned = script({"do": "create", "name": "a"}, TUNED, UPDATE, {"do": "generate"})[3]
    (entry,) = json.loads(run("adapter", "list", "--json", env=home).stdout)
    assert (entry["user"], entry["model"], entry["name"]) == ("local", "default", "a")
    assert entry["rank"] == 2
    assert "rank   2" in run("adapter", "list", env=home).stdout
    out = tmp_path / "exported"
    assert run("adapter", "export", "a", str(out), env=home).returncode == 0
    assert json.loads((out / "adapter_config.json").read_text())["r"] == 2
    assert run("adapter", "delete", "a", env=home).returncode == 0
    assert run("adapter", "delete", "a", env=home).returncode == 1
    assert run("adapter", "import", "b", str(out), env=home).returncode == 0
    assert script({"do": "open", "name": "b"}, {"do": "generate"}) == ["found", tuned]
    missing = run("adapter", "import", "c", str(tmp_path), env=home)
    assert missing.returncode == 1
    assert "adapter_config.json" in missing.stderr
    (out / "adapter_model.safetensors").write_bytes(b"damaged")
    damaged = run("adapter", "import", "c", str(out), env=home)
    assert damaged.returncode == 1
    assert "adapter_model.safetensors" in damaged.stderr


def test_guests_save_and_load_folders(script):
    answers = script(
        {"do": "create", "name": "a"},
        {"do": "save", "path": "/scratch/none"},
        TUNED,
        UPDATE,
        {"do": "generate"},
        {"do": "save", "path": "/scratch/a"},
        {"do": "copy", "from": "/scratch/a", "to": "/scratch/b"},
        {"do": "create", "name": "b"},
        {"do": "load", "path": "/scratch/b"},
        {"do": "generate"},
        {"do": "load", "path": "/scratch/missing"},
        {"do": "load", "path": "/scratch/../../etc"},
        {"do": "load", "path": "/etc"},
        {"do": "save", "path": "a"},
        {"do": "save", "path": "/data/a"},
    )
    assert "no weights" in answers[1]
    assert answers[2:4] == ["done"] * 2
    assert answers[5:9] == ["done"] * 4
    assert answers[9] == answers[4]
    assert "/scratch/missing" in answers[10]
    assert ".." in answers[11]
    assert "/scratch/ or /data/" in answers[12]
    assert "/scratch/ or /data/" in answers[13]
    assert answers[14] == "done"


@pytest.fixture
def inferlet(run: Run, home) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs an inferlet of the tree that is written in Rust."""

    def run_inferlet(name: str, *arguments: str, dummy: bool = True):
        component = ROOT / "build" / "guests" / f"{name}-rust.wasm"
        assert component.is_file(), f"{component} is missing: run `make guests`"
        manifest = ROOT / "inferlets" / name / "rust" / "Pie.toml"
        flags = ("--path", component, "--manifest", manifest, "--", *arguments)
        return run("run", *(["--dummy"] if dummy else []), *flags, env=home)

    return run_inferlet


def test_evolution_runs_and_leaves_an_adapter(inferlet):
    done = inferlet("evolve", "--generations", "3", "--pairs", "4")
    assert done.returncode == 0, done.stderr
    learned = json.loads(done.stdout.strip().splitlines()[-1])
    assert len(learned["rewards"]) == 4
    assert learned["candidates"] == 24
    done = inferlet("adapted")
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert answers["plain"] != answers["adapted"]
    done = inferlet("adapted", "--adapter", "none")
    assert done.returncode == 1
    assert "evolve" in done.stderr


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_the_default_model_learns(inferlet, seed):
    """A small budget, after which the reward has clearly risen. The guide shows a full run."""
    budget = ("--generations", "5", "--pairs", "8", "--sigma", "0.1", "--seed", seed)
    done = inferlet("evolve", *budget, dummy=False)
    assert done.returncode == 0, done.stderr
    rewards = json.loads(done.stdout.strip().splitlines()[-1])["rewards"]
    assert rewards[-1] > rewards[0] + 1.0, rewards
    done = inferlet("adapted", dummy=False)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert answers["plain"] != answers["adapted"]
