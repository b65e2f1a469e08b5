"""How bakery reports the errors of clang."""

from __future__ import annotations

from pathlib import Path

import pytest

from bakery.languages import cpp, cpp_lines
from bakery.project import Manifest, Project

_OWN_ERROR = """\
main.cpp:5:7: error: cannot initialize a variable of type 'int' with an lvalue
    5 |   int x = "a";
      |       ^   ~~~
src/other.cpp:6:27: error: no member named 'Lod' in 'inferlet::Model'
    6 |   auto m = PIE_TRY(Model::Lod("x"));
2 errors generated.
"""

_WITHIN_A_TEMPLATE = """\
In file included from main.cpp:1:
In file included from /sdk/inferlet.h:4:
/libcxx/include/vector:302:5: error: no matching function for call to '__construct_at'
  302 |     std::__construct_at(__p);
/libcxx/include/vector:973:22: note: in instantiation of function template specialization
main.cpp:7:56: note: in instantiation of member function 'std::vector<int>::vector' requested here
1 error generated.
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    for name in ("main.cpp", "src/other.cpp", "src/notes.txt", "helper.cc"):
        (tmp_path / name).write_text("")
    return tmp_path.resolve()


def test_sources_lie_beside_the_manifest_and_under_src(root: Path):
    assert [str(path) for path in cpp._sources(root)] == ["helper.cc", "main.cpp", "src/other.cpp"]


def test_a_named_source_is_built_without_the_other_programs(root: Path):
    (root / "helper.cc").write_text("int Help() { return 1; }  // for PIE_MAIN(Main)\n")
    for name in ("main.cpp", "src/other.cpp"):
        (root / name).write_text("Task<Result<Json>> Main(Json);\nPIE_MAIN(Main)\n")
    manifest = Manifest("a", "0.1.0", "", {})
    project = Project(root, manifest, root / "main.cpp")
    assert [str(path) for path in cpp._sources_of(project)] == ["main.cpp", "helper.cc"]
    loose = Project(root, manifest, root / "src" / "other.cpp", loose=True)
    assert [str(path) for path in cpp._sources_of(loose)] == ["src/other.cpp"]


def test_an_error_points_at_its_line(root: Path):
    error = cpp._compile_failure(root, _OWN_ERROR)
    assert error.where == f"{root / 'main.cpp'}:5"
    assert error.message.startswith("cannot initialize a variable")
    assert "src/other.cpp:6:27: error: no member named 'Lod'" in error.message
    assert "generated" not in error.message


def test_an_error_within_a_template_points_at_the_line_that_uses_it(root: Path):
    assert cpp._compile_failure(root, _WITHIN_A_TEMPLATE).where == f"{root / 'main.cpp'}:7"


def test_a_missing_definition_is_named(root: Path):
    told = "wasm-ld: error: /cache/o/1/main.o: undefined symbol: helper(int)\n"
    error = cpp._compile_failure(root, told * 2)
    assert error.message == "declared but not defined: helper(int)"
    assert error.where is None


def test_anything_else_is_passed_on(root: Path):
    assert (
        "LLVM ERROR: out of memory"
        in cpp._compile_failure(root, "LLVM ERROR: out of memory").message
    )


def test_line_tables_are_removed_and_names_stay():
    def custom(name: bytes, size: int) -> bytes:
        body = bytes([len(name)]) + name + bytes(size)
        return bytes([0, len(body) & 0x7F | 0x80, len(body) >> 7]) + body

    start, code, names = b"\0asm\1\0\0\0", b"\x0a\x01\x00", custom(b"name", 300)
    module = start + custom(b".debug_line", 200) + code + custom(b".debug_info", 1) + names
    assert cpp_lines.without_debug_information(module) == start + code + names
    assert cpp_lines.lines_section(start + code + names, Path("/")) == b""


def test_rows_are_written_where_something_changes():
    rows = [(9, 1, 4), (0, 0, 0), (5, 1, 4), (2, 1, 3), (2, 1, 4)]
    made = cpp_lines._encode(["a.cpp"], {300: rows, 301: [(0, 1, 200)]})
    assert made == bytes([1, 1, 5, *b"a.cpp", 2, 0xAC, 2, 2, 0, 0, 0, 2, 1, 4, 1, 1, 0, 1, 0xC8, 1])
