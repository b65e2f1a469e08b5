import pytest

from bakery import names


@pytest.mark.parametrize(
    "name",
    ["a", "hello", "my-app", "beam-search2", "list", "a1-b2", "my-app-2", "a-2b-3", "a" * 128],
)
def test_allowed(name):
    assert names.problem_with(name) is None


@pytest.mark.parametrize(
    "name", ["", "My-App", "my_app", "-a", "a-", "a--b", "1a", "2-a", "a.b", "ä", "a\n", "a" * 129]
)
def test_refused(name):
    assert names.problem_with(name)


@pytest.mark.parametrize("name", sorted(names.RESERVED))
def test_packages_of_the_contract_are_reserved(name):
    assert "reserved" in names.problem_with(name)
    assert names.suggestion_for(name) == f"my-{name}"


@pytest.mark.parametrize(
    ("given", "better"),
    [
        ("MyApp", "my-app"),
        ("my_app", "my-app"),
        ("my app", "my-app"),
        ("App 2", "app-2"),
        ("2fast", "fast"),
    ],
)
def test_suggestions(given, better):
    assert names.suggestion_for(given) == better


def test_no_suggestion_for_nothing():
    assert names.suggestion_for("123") is None
