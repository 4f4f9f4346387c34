"""The reference: every public name, its signature and its docstring, package by package."""

from __future__ import annotations

import importlib
import inspect
from functools import cache
from types import ModuleType
from typing import Any

from docs.site.places import ROOT, write

#: Packages whose names other parts of npformer use, and nobody else.
INTERNAL = {
    "npformer.engine.cuda",
    "npformer.engine.numba",
    "npformer.backend.numpy",
    "npformer.check.causes",
}
ERRORS = "npformer.errors"


@cache
def packages() -> list[str]:
    """The packages with public names: npformer itself, then the rest in the order of their names."""
    found = [
        ".".join(("npformer", *path.parent.relative_to(ROOT / "npformer").parts))
        for path in (ROOT / "npformer").rglob("__init__.py")
        if "__all__" in path.read_text(encoding="utf-8")
    ]
    return [*sorted(set(found) - INTERNAL), ERRORS]


def names(package: str) -> list[str]:
    """The public names of a package."""
    module = importlib.import_module(package)
    return list(getattr(module, "__all__", [name for name, kind in vars(module).items() if isinstance(kind, type)]))


@cache
def homes() -> dict[int, str]:
    """Identity of a public object -> the name under which it is described: the shortest, the first of equals."""
    found: dict[int, str] = {}
    for package in packages():
        for name in names(package):
            found.setdefault(id(thing(package, name)), f"{package}.{name}")
    return found


def thing(package: str, name: str) -> Any:
    """The object behind a public name."""
    return getattr(importlib.import_module(package), name)


def home(package: str, name: str) -> str:
    """The full name under which an object is described. Small constants may be equal, so they have their own."""
    found = thing(package, name)
    if isinstance(found, ModuleType):
        return found.__name__
    return homes()[id(found)] if callable(found) else f"{package}.{name}"


def write_all() -> None:
    """A page for each package, and the list of them with what each says of itself."""
    for package in packages():
        write(f"api/{package}.rst", page(package))
    listed = "\n".join(f"   {package}" for package in packages())
    write(
        "api/index.rst",
        "Reference\n=========\n\nEvery public name, package by package. ``import npformer as npf`` gives the first "
        "package; names that are\nnot there are internal and may change.\n\n"
        f".. autosummary::\n\n{listed}\n\n.. toctree::\n   :hidden:\n\n{listed}\n",
    )


def page(package: str) -> str:
    """All names of a package; those that have their home elsewhere, as links."""
    homes_here = {f"{package}.{name}" for name in names(package)} - set(packages())
    own = [name for name in names(package) if home(package, name) in homes_here]
    others = [home(package, name) for name in names(package) if name not in own]
    parts = [f"{package}\n{'=' * len(package)}\n\n.. automodule:: {package}\n", *(entry(package, name) for name in own)]
    if others:
        listed = "\n".join(f"* :py:obj:`{name}`" for name in others)
        parts.append(f"Described elsewhere\n{'-' * 19}\n\n{listed}\n")
    return "\n".join(parts)


def entry(package: str, name: str) -> str:
    """The directive that describes a name, under a heading of its own."""
    found = thing(package, name)
    described = f"data:: {package}.{name}\n   :no-value:"
    if isinstance(found, type):
        bases = "\n   :show-inheritance:" if found.__bases__ != (object,) else ""
        described = f"class:: {package}.{name}\n   :members:{bases}"
    elif inspect.isroutine(found):
        described = f"function:: {package}.{name}"
    return f"{name}\n{'-' * len(name)}\n\n.. auto{described}\n"
