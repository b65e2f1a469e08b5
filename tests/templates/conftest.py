"""Shared by the tests of families of templates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from templates import oracle
from templates.driver import Templates
from templates.families import Family


@pytest.fixture(scope="module")
def ours(family: Family) -> Iterator[Templates]:
    """The engine with the template of `family`, which each file chooses."""
    with Templates(family.tokenizer) as templates:
        loaded = templates.ask(
            template=family.source, variables=family.variables, now=oracle.SECONDS
        )
        assert "error" not in loaded, loaded
        yield templates
