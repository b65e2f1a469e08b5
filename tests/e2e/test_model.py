"""The default model as a user meets it: no configuration, a real answer, and possible errors."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import configuration
import pytest

CACHE = Path(
    os.environ.get("PIE_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pie"
)
DEFAULT = CACHE / "models" / "smollm2-135m-instruct"
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "models"
# Type of keys and values → a question and its greedy answer. In 8 bits, the answer about France may
# begin with another word, because the best two are almost equally likely.
QUESTIONS = {
    "f16": ("What is the capital of France?", "The capital of France is Paris."),
    "q8": (
        "Name three fruits.",
        "The most common and widely available fruits are apples, oranges, and grapes.",
    ),
}
every_language = pytest.mark.parametrize("language", ("rust", "python", "typescript", "cpp"))


@pytest.fixture
def home(tmp_path) -> dict[str, str]:
    """The environment of a user who has no config."""
    configuration.write(tmp_path / "home")
    return {"PIE_HOME": str(tmp_path / "home")}


@pytest.fixture
def no_models(home, tmp_path) -> dict[str, str]:
    """The environment of a user who has no config and no models."""
    return {**home, "PIE_CACHE": str(tmp_path / "cache")}


def ask(run, guest, env, *arguments: str, language: str = "rust"):
    return run("run", *guest(f"text-completion-{language}"), "--", *arguments, env=env)


@every_language
def test_answers_without_any_configuration(run, guest, home, language):
    question, answer = QUESTIONS[configuration.option("kv_cache_dtype", "f16")]
    done = ask(run, guest, home, "--prompt", question, "--temperature", "0", language=language)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{answer}\n"


def test_same_seed_same_words(run, guest, home):
    first, second = (ask(run, guest, home, "--prompt", "Tell me a story") for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert len(first.stdout.split()) > 20
    assert first.stdout == second.stdout


def test_models_are_listed_with_what_they_are(run, home):
    done = run("model", "list", env=home)
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if "smollm2" in line)
    assert "llama, 135 M parameters, Q4_1, 8192 tokens of context" in line


def test_a_missing_model_says_how_to_get_it(run, guest, no_models):
    done = ask(run, guest, no_models, "--prompt", "hi")
    assert (done.returncode, done.stdout) == (1, "")
    assert "pie model download" in done.stderr
    assert "not downloaded yet" in run("model", "list", env=no_models).stdout


def test_download_and_remove(run, no_models):
    done = run("model", "download", env=no_models)
    assert done.returncode == 0, done.stderr
    assert "llama, 135 M parameters" in done.stdout
    file = next(Path(no_models["PIE_CACHE"]).glob("models/*/*.gguf"))
    before = file.stat()
    assert run("model", "download", env=no_models).returncode == 0
    assert file.stat().st_mtime_ns == before.st_mtime_ns, (
        "a model that is there is not downloaded again"
    )
    assert run("model", "remove", "smollm2-135m-instruct", env=no_models).returncode == 0
    assert not file.exists()
    done = run("model", "remove", "smollm2-135m-instruct", env=no_models)
    assert done.returncode == 1
    assert "no model 'smollm2-135m-instruct' is downloaded" in done.stderr
    done = run("model", "download", "no-such-model", env=no_models)
    assert done.returncode == 1
    assert "smollm2-135m-instruct" in done.stderr, "the error names the known models"


def config_for(tmp_path: Path, weights: Path, more: str = "") -> Path:
    path = tmp_path / "config.toml"
    path.write_text(f'[[model]]\nhf_repo = "{weights}"\n{more}')
    return path


def damaged(tmp_path: Path, fault: str) -> Path:
    source = next(DEFAULT.glob("*.gguf"))
    broken = tmp_path / "broken.gguf"
    shutil.copyfile(source, broken)
    with broken.open("r+b") as file:
        match fault:
            case "cut short":
                file.truncate(source.stat().st_size // 2)
            case "no model":
                file.write(b"This is a letter, not a model.")
            case "absurd count":
                file.seek(8)
                file.write(b"\xff" * 8)
            case "other version":
                file.seek(4)
                file.write(b"\x63")
            case "unknown architecture":
                head = file.read(1 << 16)
                file.seek(head.index(b"llama"))
                file.write(b"lemma")
            case "no tokenizer":
                head = file.read(1 << 20)
                file.seek(head.index(b"tokenizer.ggml.model") + 15)
                file.write(b"medal")
    return broken


FAULTS = (
    "cut short",
    "no model",
    "absurd count",
    "other version",
    "unknown architecture",
    "no tokenizer",
)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_file_is_refused_at_once(run, guest, tmp_path, fault):
    config = config_for(tmp_path, damaged(tmp_path, fault))
    done = run("run", "-c", config, *guest("hello-rust"), "--", "--name", "Ada")
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert "broken.gguf" in done.stderr


def test_more_memory_than_there_is(run, guest, tmp_path):
    options = "[model.driver.options]\ntotal_pages = 67108864\n"
    config = config_for(tmp_path, next(DEFAULT.glob("*.gguf")), options)
    done = run("run", "-c", config, *guest("hello-rust"), "--", "--name", "Ada")
    assert done.returncode == 1
    assert "KV pages" in done.stderr


def test_a_cache_that_is_not_there(run, guest, tmp_path):
    options = '[model.driver.options]\nkv_cache_dtype = "q4"\n'
    config = config_for(tmp_path, next(DEFAULT.glob("*.gguf")), options)
    done = run("run", "-c", config, *guest("hello-rust"), "--", "--name", "Ada")
    assert done.returncode == 1
    assert 'kv_cache_dtype = "q4"' in done.stderr
    assert '"f16" and "q8"' in done.stderr


@pytest.mark.parametrize("name", ["q8", "q8_0", "int8"])
def test_keys_and_values_in_bytes(run, guest, tmp_path, name):
    options = f'[model.driver.options]\nkv_cache_dtype = "{name}"\n'
    config = config_for(tmp_path, next(DEFAULT.glob("*.gguf")), options)
    words = ("--prompt", "Who wrote Romeo and Juliet?", "--temperature", "0")
    done = run("run", "-c", config, *guest("text-completion-rust"), "--", *words)
    assert done.returncode == 0, done.stderr
    assert "Shakespeare" in done.stdout


def test_longer_than_the_model_knows(run, guest, tmp_path):
    options = "[model.driver.options]\nmax_positions = 64\n"
    config = config_for(tmp_path, next(DEFAULT.glob("*.gguf")), options)
    done = run("run", "-c", config, *guest("text-completion-rust"), "--", "--prompt", "word " * 200)
    assert done.returncode == 1
    assert "64" in done.stderr


def test_the_dummy_speaks_a_real_vocabulary_without_weights(run, guest, home, tmp_path):
    flag = "--dummy=smollm2-135m-instruct"
    arguments = ("--prompt", "Tell me a story", "--temperature", "0", "--max-tokens", "12")
    first, second = (
        run("run", flag, *guest("text-completion-rust"), "--", *arguments, env=home)
        for _ in range(2)
    )
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    words = first.stdout.split()
    assert words and all(word.isascii() and word.isalpha() for word in words), first.stdout
    # Tokens of a real vocabulary have several letters; those of the dummy model have one.
    assert max(len(word) for word in words) > 1

    config = tmp_path / "config.toml"
    config.write_text(
        '[[model]]\n[model.driver]\ntype = "dummy"\nvocabulary = "smollm2-135m-instruct"\n'
    )
    third = run(
        "run", "-c", str(config), *guest("text-completion-rust"), "--", *arguments, env=home
    )
    assert third.stdout == first.stdout


def test_the_dummy_names_a_vocabulary_that_is_missing(run, guest, home):
    done = run("run", "--dummy=no-such-model", *guest("hello-rust"), env=home)
    assert done.returncode == 1
    assert "no model 'no-such-model' was found" in done.stderr


def test_the_dummy_takes_the_folder_of_a_tokenizer(run, guest, home, tmp_path):
    """A folder without weights is enough."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    vocabulary = {chr(code): code - 32 for code in range(32, 127)}
    end = {"id": len(vocabulary), "content": "</s>", "special": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [end | flags],
        "decoder": {"type": "Fuse"},
        "model": {"type": "BPE", "vocab": {**vocabulary, "</s>": end["id"]}, "merges": []},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    shutil.copy(GOLDEN / "llama" / "config.json", folder)
    config = json.loads((folder / "config.json").read_text()) | {"vocab_size": 96}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    done = run(
        "run", f"--dummy={folder}", *guest("text-completion-rust"), "--", "--prompt", "hi", env=home
    )
    assert done.returncode == 0, done.stderr
