"""Reads the public names of a Python package from its sources."""

from __future__ import annotations

import ast
from pathlib import Path

from reference.page import Entry, Module

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(package: Path) -> list[Module]:
    """The modules that `__all__` of a package lists; of its other modules, the names it lists."""
    paths = [path for path in package.glob("*.py") if path.name != "__init__.py"]
    folders = [path.parent for path in package.glob("*/__init__.py")]
    start = package / "__init__.py"
    public = _listed(ast.parse(start.read_text(encoding="utf-8"))) if start.is_file() else set()
    made = [_module(path, public) for path in paths] + [_package(folder) for folder in folders]
    return sorted(made, key=lambda module: module.name)


def _module(path: Path, public: set[str]) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    # The names of a hidden module are imported from the package itself.
    name = path.parent.name if path.stem.startswith("_") else path.stem
    module = Module(name, ast.get_docstring(tree) or "")
    whole = not public or path.stem in public
    module.entries += _entries(tree, _listed(tree) if whole else public)
    return module


def _package(folder: Path) -> Module:
    """A package as one module: its own text, and what it lists of its parts."""
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    module = Module(folder.name, ast.get_docstring(tree) or "")
    for part in sorted(folder.glob("_[a-z]*.py")):
        module.entries += _entries(ast.parse(part.read_text(encoding="utf-8")), _listed(tree))
    return module


def _entries(tree: ast.Module, public: set[str]) -> list[Entry]:
    """The functions and classes of a module; of those in `public`, if there are any."""
    entries = []
    for node in tree.body:
        name = getattr(node, "name", "")
        if not name or name.startswith("_") or (public and name not in public):
            continue
        if isinstance(node, _Function) and not _is_overload(node):
            entries.append(Entry(name, _signature(node), ast.get_docstring(node) or ""))
        elif isinstance(node, ast.ClassDef):
            entries.append(_class(node))
    return entries


def _listed(tree: ast.Module) -> set[str]:
    """The names in `__all__`; empty if there is none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


def _is_overload(node: _Function) -> bool:
    return any(ast.unparse(decorator) == "overload" for decorator in node.decorator_list)


def _signature(node: _Function, *, of_class: bool = False) -> str:
    marks = {"staticmethod", "classmethod", "property", "contextmanager"}
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    head = "".join(f"@{name} " for name in decorators if name in marks)
    arguments = node.args
    # Parameters that begin with an underscore are for the SDK itself.
    kept = [
        (argument, default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if not argument.arg.startswith("_")
    ]
    arguments.kwonlyargs = [argument for argument, _ in kept]
    arguments.kw_defaults = [default for _, default in kept]
    if of_class and "staticmethod" not in decorators:
        positional = arguments.posonlyargs or arguments.args
        del positional[0]
    keyword = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{head}{keyword} {node.name}({ast.unparse(arguments)}){result}"


def _class(node: ast.ClassDef) -> Entry:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    declaration = f"class {node.name}({bases})" if bases else f"class {node.name}"
    entry = Entry(node.name, declaration, ast.get_docstring(node) or "")
    for position, member in enumerate(node.body):
        if isinstance(member, _Function) and not _is_overload(member):
            if member.name == "__init__":
                signature = _signature(member, of_class=True).removeprefix("def __init__")
                entry.declaration = f"class {node.name}{signature.removesuffix(' -> None')}"
            elif not member.name.startswith("_"):
                doc = ast.get_docstring(member) or ""
                entry.members.append(Entry(member.name, _signature(member, of_class=True), doc))
        elif isinstance(member, ast.AnnAssign) and not ast.unparse(member.target).startswith("_"):
            name = ast.unparse(member.target)
            following = node.body[position + 1] if position + 1 < len(node.body) else None
            doc = _text_of(following)
            entry.members.append(Entry(name, ast.unparse(member), doc))
    return entry


def _text_of(node: ast.stmt | None) -> str:
    """The text, if the statement is nothing but a text."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return str(node.value.value)
    return ""
