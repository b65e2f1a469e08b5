"""The examples of the guides on constraints and speculation, in all languages, on the dummy."""

from __future__ import annotations

import json

import pytest

LANGUAGES = ("rust", "python", "typescript", "cpp")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_extracted_order_fits_its_type(run, guest, language: str, seed: int):
    # The dummy model likes spaces, of which JSON may have any number: all tokens are alike here.
    arguments = ("--text", "Two pies, please.", "--temperature", "1000", "--seed", str(seed))
    done = run("run", "--dummy", *guest(f"extract-{language}"), "--", *arguments)
    assert done.returncode == 0, done.stderr
    order = json.loads(done.stdout)
    assert order.keys() == {"pies", "size", "warm"}
    assert isinstance(order["pies"], int) and isinstance(order["warm"], bool)
    assert order["size"] in ("small", "large")


def test_a_document_that_is_cut_off_is_an_error(run, guest):
    arguments = ("--text", "Two pies.", "--max_tokens", "3")
    for language in LANGUAGES:
        done = run("run", "--dummy", *guest(f"extract-{language}"), "--", *arguments)
        assert done.returncode == 1
        assert "not complete after 3 tokens" in done.stderr


def test_a_drafter_of_your_own_changes_no_token(run, guest):
    """All languages answer the same, and the same as without drafts."""
    arguments = ("--prompt", "Repeat after me: pie pie pie pie pie", "--max_tokens", "40")
    texts = set()
    for language in LANGUAGES:
        done = run("run", "--dummy", *guest(f"lookup-{language}"), "--", *arguments)
        assert done.returncode == 0, done.stderr
        texts.add(done.stdout)
    assert len(texts) == 1 and len(texts.pop()) >= 40
