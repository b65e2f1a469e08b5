"""The configurations of the test matrix: they merge with what a test configures itself."""

import tomllib

import configuration
import pytest

import run_matrix


def test_a_tests_own_values_take_precedence():
    given = "[runtime]\nworker_threads = 1\n[[model]]\n[model.driver.options]\nkv_page_size = 1\n"
    own = '[runtime]\nallow_fs = true\nworker_threads = 2\n[[model]]\nname = "m"\n[[model]]\n'
    assert tomllib.loads(configuration.merged(given, own)) == {
        "runtime": {"worker_threads": 2, "allow_fs": True},
        "model": [{"name": "m", "driver": {"options": {"kv_page_size": 1}}}, {}],
    }


@pytest.mark.parametrize("text", ["", "[auth]\nenabled = true\n"])
def test_without_a_configuration_a_test_has_its_own_text(text):
    assert configuration.merged("", text) == text


def test_strings_survive(tmp_path):
    own = {"server": {"tls_cert": 'a "quoted" path', "ports": [1, 2]}}
    given = "[runtime]\nworker_threads = 1\n"
    merged = configuration.merged(given, configuration.dump(own))
    assert tomllib.loads(merged) == {**own, "runtime": {"worker_threads": 1}}


@pytest.mark.parametrize("name", run_matrix.names())
def test_every_configuration_is_explained_and_valid(name):
    text = (configuration.FOLDER / f"{name}.toml").read_text()
    assert text.startswith("# ")
    assert tomllib.loads(text)
