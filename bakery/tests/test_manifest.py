"""Pie.toml: a valid file is read, and every error names its line."""

import pytest

from bakery import manifest
from bakery.errors import BakeryError

_GOOD = """\
# an inferlet
[package]
name = "my-app"
version = "0.1.0"
description = "Says hello"
authors = ["Ada"]

[runtime]
core = "^0.2.0"

[parameters]
prompt = { type = "string", optional = true, description = "What to say" }
max_tokens = { type = "int" }
"""


def _read(tmp_path, text: str):
    path = tmp_path / "Pie.toml"
    path.write_text(text)
    return manifest.read(path)


def _fault(tmp_path, text: str) -> BakeryError:
    with pytest.raises(BakeryError) as caught:
        _read(tmp_path, text)
    return caught.value


def test_a_whole_manifest_is_read(tmp_path):
    read = _read(tmp_path, _GOOD)
    assert (read.name, read.version, read.description) == ("my-app", "0.1.0", "Says hello")
    assert read.authors == ("Ada",)
    assert read.runtime == {"core": "^0.2.0"}
    assert read.parameters["prompt"]["optional"] is True
    assert list(read.parameters) == ["prompt", "max_tokens"]


def test_name_and_version_are_enough(tmp_path):
    read = _read(tmp_path, '[package]\nname = "a"\nversion = "1.2.3-rc.1+build.5"\n')
    assert read.description == ""
    assert read.parameters == {}


@pytest.mark.parametrize(
    ("find", "put", "line", "said"),
    [
        ('"my-app"', '"My_App"', 3, "'My_App' is not a valid inferlet name"),
        ('"my-app"', '"core"', 3, "'core' is reserved"),
        ('"my-app"', "7", 3, "name must be a string in quotes, not 7"),
        ('"0.1.0"', '"0.1"', 4, "'0.1' is not a semantic version"),
        ('"0.1.0"', '"01.0.0"', 4, "not a semantic version"),
        ('["Ada"]', "7", 6, "authors must be a list"),
        ('"^0.2.0"', '"newest"', 9, "'newest' in [runtime] is not a version requirement"),
        ("optional = true", "optional = 1", 12, "optional must be true or false"),
        ("optional = true", "required = 1", 12, "required must be true or false"),
        ('= "Says hello"', '= "Says hello', 5, "not valid TOML"),
    ],
)
def test_each_fault_has_its_line(tmp_path, find, put, line, said):
    fault = _fault(tmp_path, _GOOD.replace(find, put, 1))
    assert said in fault.message
    assert fault.where == f"{tmp_path / 'Pie.toml'}:{line}"


def test_a_parameter_in_a_table_of_its_own_has_its_line(tmp_path):
    text = '[package]\nname = "a"\nversion = "0.1.0"\n\n[parameters.n]\noptional = "yes"\n'
    assert _fault(tmp_path, text).where.endswith("Pie.toml:5")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ('{ type = "integer" }', "int"),
        ('{ type = "number" }', "float"),
        ('{ type = "boolean" }', "bool"),
        ('{ type = "str" }', "string"),
        ('{ description = "Anything" }', "any"),
        ("{}", "any"),
        ('"string"', "string"),
        ('"integer"', "int"),
        ('{ type = "int", default = 4 }', "int"),
    ],
)
def test_types_have_several_names_and_a_short_form(tmp_path, given, wanted):
    read = _read(tmp_path, _GOOD.replace('{ type = "int" }', given))
    assert read.parameters["max_tokens"]["type"] == wanted
    assert read.notices == ()


@pytest.mark.parametrize(
    ("find", "put", "line", "said"),
    [
        ("authors", "repository", 6, "unknown key in [package] is ignored: repository"),
        ("description", "descripton", 5, "descripton (did you mean description?)"),
        ("[runtime]", "[run-time]", 8, "unknown section is ignored: run-time"),
        ("core", "python-runtime", 9, "unknown key in [runtime] is ignored: python-runtime"),
        ("optional = true", "example = 1", 12, "key in parameter prompt is ignored: example"),
        ('"int"', '"json"', 13, "parameter max_tokens has an unknown type: 'json'"),
        ('{ type = "int" }', "5", 13, "parameter max_tokens has an unknown type: 5"),
        ("max_tokens", '"max tokens"', 13, "parameter 'max tokens' cannot be given as a flag"),
        ("max_tokens", "'größe'", 13, "such as"),
        ("[runtime]\ncore =", '[dependencies]\nb = { path = "../b" }\nc =', 9, "b = {'path':"),
    ],
)
def test_what_means_nothing_here_is_a_notice(tmp_path, find, put, line, said):
    (notice,) = _read(tmp_path, _GOOD.replace(find, put, 1)).notices
    assert said in notice
    assert notice.startswith(f"{tmp_path / 'Pie.toml'}:{line}: ")


@pytest.mark.parametrize(
    ("given", "optional"),
    [
        ("required = false", True),
        ("required = true", False),
        ("required = false, optional = false", False),
    ],
)
def test_required_is_the_opposite_of_optional(tmp_path, given, optional):
    read = _read(tmp_path, _GOOD.replace("optional = true", given))
    assert read.parameters["prompt"]["optional"] is optional
    assert read.notices == ()


def test_authors_are_a_text_or_a_list(tmp_path):
    assert _read(tmp_path, _GOOD.replace('["Ada"]', '"Ada"')).authors == ("Ada",)


@pytest.mark.parametrize(
    "table", ['[runtime]\ncore = { version = "^0.2.0" }', '[runtime.core]\nversion = "^0.2.0"']
)
def test_a_requirement_has_a_long_form(tmp_path, table):
    read = _read(tmp_path, _GOOD.replace('[runtime]\ncore = "^0.2.0"', table))
    assert read.runtime == {"core": "^0.2.0"}
    assert read.notices == ()


@pytest.mark.parametrize("name", ["max-tokens", "max_tokens", "maxTokens", "n2", "_n"])
def test_parameters_of_several_words_are_read(tmp_path, name):
    read = _read(tmp_path, _GOOD.replace("max_tokens", name))
    assert read.parameters[name]["type"] == "int"
    assert read.notices == ()


def test_the_notice_about_a_parameter_offers_a_name(tmp_path):
    read = _read(tmp_path, _GOOD.replace("max_tokens", '"Max tokens!"'))
    assert read.parameters["Max tokens!"]["type"] == "int"
    assert read.notices[0].endswith("such as max_tokens")


@pytest.mark.parametrize("key", ["readme", "license", "homepage", "keywords", "edition"])
def test_keys_of_other_tools_are_not_taken_for_mistyped_ones(tmp_path, key):
    (notice,) = _read(tmp_path, _GOOD.replace("authors", key, 1)).notices
    assert notice.endswith(f"unknown key in [package] is ignored: {key}")


def test_a_better_name_is_offered(tmp_path):
    assert "my-app" in _fault(tmp_path, _GOOD.replace("my-app", "MyApp")).hint


def test_an_empty_file_says_what_is_needed(tmp_path):
    fault = _fault(tmp_path, "")
    assert fault.message == "[package] is missing"
    assert fault.where.endswith("Pie.toml:1")


def test_bytes_that_are_no_text(tmp_path):
    path = tmp_path / "Pie.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BakeryError, match="not UTF-8"):
        manifest.read(path)
