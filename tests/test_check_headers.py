"""The check of headers must find a header that leaves <cstdint> to others."""

import pytest

import check_headers


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("#include <optional>\nstd::optional<uint16_t> port;\n", True),
        ("#include <cstdint>\nstd::uint64_t bytes;\n", False),
        ("#include <string>\n// a uint32_t on the wire\nstd::string port;\n", False),
    ],
)
def test_fixed_width_integers_need_cstdint(text, lacks):
    assert check_headers.lacks_cstdint(text) is lacks


def test_headers_of_inferlets_are_not_ours(tmp_path):
    for name in ("tests/sim/world.h", "tests/cpp-sdk/checks.h", "src/base/ids.h"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "tests/cpp-sdk/Pie.toml").touch()
    names = [path.relative_to(tmp_path).as_posix() for path in check_headers.headers(tmp_path)]
    assert names == ["src/base/ids.h", "tests/sim/world.h"]
