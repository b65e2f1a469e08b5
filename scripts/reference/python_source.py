"""Reads the public names of a Python package from its sources."""

from __future__ import annotations

import ast
from pathlib import Path

from reference.page import Entry, Module

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(package: Path) -> list[Module]:
    """The modules of a package whose names do not begin with an underscore."""
    paths = sorted(path for path in package.glob("*.py") if not path.name.startswith("_"))
    return [_module(path) for path in paths]


def _module(path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    public = _listed(tree)
    module = Module(path.stem, ast.get_docstring(tree) or "")
    for node in tree.body:
        name = getattr(node, "name", "")
        if not name or name.startswith("_") or (public and name not in public):
            continue
        if isinstance(node, _Function) and not _is_overload(node):
            module.entries.append(Entry(name, _signature(node), ast.get_docstring(node) or ""))
        elif isinstance(node, ast.ClassDef):
            module.entries.append(_class(node))
    return module


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
