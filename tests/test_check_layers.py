"""The layer check finds each kind of wrong include and accepts right ones."""

from pathlib import Path

import pytest

import check_layers

_ROOT = Path(__file__).resolve().parents[1]
_TREE = (
    "base/ids.h kv/page_pool.h model/model.h backend/backend.h backend/cpu/cpu.h backend/dummy/d.h "
    "backend/cpu/machine/simd.h backend/cpu/layers/norm.h sched/scheduler.h wasm/runtime.h "
    "backend/cuda/step_builder.h backend/cuda/kernels/step.h backend/cuda/device/weights.h "
    "backend/cpu/top.h host/context.h server/codec.h cli/main.h"
)


@pytest.fixture
def tree(tmp_path):
    """A src/ with one header in each layer, and a way to write one file that includes another."""
    for name in _TREE.split():
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#pragma once\n")

    def include(file: str, included: str) -> list[str]:
        path = tmp_path / "src" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'// first line\n#include <vector>\n#include "{included}"\n')
        return [str(violation) for violation in check_layers.check(tmp_path)]

    return include


@pytest.mark.parametrize(
    ("file", "included"),
    [
        ("kv/a.cc", "base/ids.h"),
        ("kv/a.cc", "kv/page_pool.h"),
        ("backend/dummy/a.cc", "backend/backend.h"),
        ("backend/cpu/layers/a.cc", "backend/cpu/machine/simd.h"),
        ("backend/cpu/machine/a_test.cc", "backend/cpu/layers/norm.h"),
        ("backend/cpu/a.cc", "backend/cpu/layers/norm.h"),
        ("backend/cuda/a.cc", "backend/cuda/kernels/step.h"),
        ("backend/cuda/device/a.cc", "backend/cuda/step_builder.h"),
        ("backend/cuda/device/a.cc", "kv/page_pool.h"),
        ("backend/cuda/kernels/a.cuh", "base/ids.h"),
        ("backend/cuda/kernels/a_test.cc", "backend/cuda/step_builder.h"),
        ("sched/a.cc", "kv/page_pool.h"),
        ("wasm/a.cc", "pie_bridge.h"),
        ("host/a.cc", "sched/scheduler.h"),
        ("server/a.cc", "host/context.h"),
        ("cli/a.cc", "backend/dummy/d.h"),
    ],
)
def test_an_include_that_points_down_passes(tree, file, included):
    assert tree(file, included) == []


@pytest.mark.parametrize(
    ("file", "included", "said"),
    [
        ("base/a.cc", "kv/page_pool.h", "base may include nothing"),
        ("kv/a.cc", "model/model.h", "model is not below it"),
        ("wasm/a.cc", "sched/scheduler.h", "sched is not below it"),
        ("sched/a.cc", "host/context.h", "host is not below it"),
        ("backend/cpu/a.cc", "backend/dummy/d.h", "private to itself"),
        ("backend/a.cc", "backend/cpu/cpu.h", "private to itself"),
        ("backend/cpu/machine/a.cc", "backend/cpu/layers/norm.h", "layers is not below it"),
        ("backend/cpu/odd/a.cc", "backend/cpu/machine/simd.h", "backend/cpu/odd has no layer"),
        ("backend/cpu/layers/a.cc", "backend/cpu/top.h", ". is not below it"),
        ("backend/cuda/kernels/a.cu", "backend/cuda/device/weights.h", "device is not below it"),
        ("backend/cuda/kernels/a.cuh", "backend/cuda/step_builder.h", ". is not below it"),
        ("backend/cuda/kernels/a.cu", "kv/page_pool.h", "may include base alone"),
        ("backend/cuda/emulator/a.cc", "backend/cuda/device/weights.h", "device is not below it"),
        ("backend/cuda/a.cc", "backend/cuda/device/weights.h", "device is not below it"),
        ("kv/a.cc", "pie_bridge.h", "the bridge"),
        ("kv/a.cc", "page_pool.h", 'such as "kv/page_pool.h"'),
        ("kv/a.cc", "base/gone.h", "does not exist"),
        ("util/a.cc", "base/ids.h", "has no layer"),
    ],
)
def test_an_include_that_does_not_is_named_with_its_line(tree, file, included, said):
    (message,) = tree(file, included)
    assert message.startswith(f"src/{file}:3:")
    assert said in message


def test_the_tree_itself_holds_to_its_layers():
    assert check_layers.check(_ROOT) == []
