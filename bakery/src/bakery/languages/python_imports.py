"""Finds the modules that a Python program imports.

A component holds only the modules that were imported while it was built, so imports inside
functions must be found and done in advance. The scan starts at the entry file and follows imports
into the program's own files and its dependencies. It reads the code and never runs it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

# Statements that bind a name at the top level of a module, for sources that cannot be parsed.
_BINDS = r"^(async\s+def|def)\s+{0}\b|^{0}\s*=|^from\s.+\b{0}\b"

# An import inside a function: the module, the names taken from it, and whether it must exist.
Late = tuple[str, tuple[str, ...], bool]


@dataclass(frozen=True)
class Import:
    """One import statement. `names` are the names of `from module import names`."""

    module: str
    names: tuple[str, ...]
    line: int
    late: bool  # inside a function, so importing the file does not execute it
    guarded: bool  # inside a try or an if, so the module may be absent


@dataclass
class Scan:
    """The imports of a program. `where` holds a module's first import in the user's own files, and
    `own` is those of them that it imports."""

    own: list[Path] = field(default_factory=list)
    late: dict[tuple[str, tuple[str, ...]], bool] = field(default_factory=dict)  # → required?
    where: dict[str, tuple[Path, int]] = field(default_factory=dict)


def defines(source: str, name: str) -> bool:
    """Returns whether a module binds a name at its top level."""
    try:
        body = ast.parse(source).body
    except SyntaxError:  # the syntax may be newer than this interpreter
        return bool(re.search(_BINDS.format(name), source, re.M))
    return any(name in _names_bound_by(statement) for statement in body)


def calls(source: str, name: str) -> bool:
    """Whether running a module calls the function `name`: at its top level, and not below
    `if __name__ == "__main__"`."""
    try:
        body = ast.parse(source).body
    except SyntaxError:
        return False
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.ClassDef():
                continue
            case ast.If(test=test) if "__name__" in ast.dump(test):
                continue
            case ast.Call(func=ast.Name(id=called)) if called == name:
                return True
        todo += ast.iter_child_nodes(node)
    return False


def imports_from(source: str, packages: set[str]) -> bool:
    """Whether a module has relative imports, or imports from one of these packages."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return bool(re.search(r"^\s*from\s+\.", source, re.M))
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            named = node.level > 0 or (node.module or "").partition(".")[0] in packages
        elif isinstance(node, ast.Import):
            named = any(alias.name.partition(".")[0] in packages for alias in node.names)
        else:
            named = False
        if named:
            return True
    return False


def _names_bound_by(statement: ast.stmt) -> list[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
            return [alias.asname or alias.name for alias in aliases]
    return []


def scan(entry: Path, own: Path, others: list[Path], *, script: bool) -> Scan:
    """Follows imports from `entry`. `own` is the folder of the user's modules, `others` are the
    folders of dependencies. All imports of a script count as late, because none of its code runs at
    build time."""
    found = Scan()
    todo = [entry]
    seen: set[Path] = set()
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        mine = path.is_relative_to(own)
        if mine:
            found.own.append(path)
        package = _package_of(path, [own, *others])
        for item in _imports_in(path, package):
            if item.late or (script and path == entry):
                key = (item.module, item.names)
                required = mine and not item.guarded
                found.late[key] = found.late.get(key, False) or required
            if mine:
                found.where.setdefault(item.module, (path, item.line))
            for module in (item.module, *(f"{item.module}.{name}" for name in item.names)):
                todo += _files_of(module, [own, *others])
    return found


def _package_of(path: Path, roots: list[Path]) -> list[str]:
    """The package that relative imports in `path` start from."""
    root = next(root for root in roots if path.is_relative_to(root))
    return list(path.relative_to(root).parent.parts)


def _files_of(module: str, roots: list[Path]) -> Iterator[Path]:
    """Yields the files that importing `module` executes, if it lies in one of `roots`."""
    parts = module.split(".")
    for root in roots:
        if not ((root / parts[0]).is_dir() or (root / f"{parts[0]}.py").is_file()):
            continue
        for depth in range(1, len(parts) + 1):
            base = root.joinpath(*parts[:depth])
            for path in (base / "__init__.py", base.with_name(base.name + ".py")):
                if path.is_file():
                    yield path
        return


def _imports_in(path: Path, package: list[str]) -> Iterator[Import]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return  # the component's own interpreter reports syntax errors
    yield from _walk(tree, package, late=False, guarded=False)


def _walk(node: ast.AST, package: list[str], *, late: bool, guarded: bool) -> Iterator[Import]:
    match node:
        case ast.Import(names=aliases):
            for alias in aliases:
                yield Import(alias.name, (), node.lineno, late, guarded)
            return
        case ast.ImportFrom(module=module, names=aliases, level=level):
            names = tuple(alias.name for alias in aliases if alias.name != "*")
            base = package[: len(package) - level + 1] if level else []
            full = ".".join([*base, *([module] if module else [])])
            if full:
                yield Import(full, names, node.lineno, late, guarded)
            return
        case ast.Call(
            func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            yield Import(name, (), node.lineno, late, True)
        case ast.If(test=test, orelse=orelse) if _is_type_checking(test):
            for child in orelse:
                yield from _walk(child, package, late=late, guarded=guarded)
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            late = True
        case ast.Try() | ast.TryStar() | ast.If():
            guarded = True
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, package, late=late, guarded=guarded)


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )
