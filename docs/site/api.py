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
    "npformer.lab.museum.checks",
    "npformer.proof.repairs",
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
    if package == ERRORS:
        return [name for name, kind in vars(module).items() if isinstance(kind, type)]
    return list(module.__all__)


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
    shared = isinstance(found, (type, ModuleType)) or callable(found)
    return homes()[id(found)] if shared else f"{package}.{name}"


def write_all() -> None:
    """A page for each package, and the list of them."""
    for package in packages():
        write(f"api/{package}.rst", page(package))
    listed = "\n".join(f"   {package}" for package in packages())
    rows = "\n".join(f"   * - :doc:`{package}`\n     - {first_line(package)}" for package in packages())
    write(
        "api/index.rst",
        "Reference\n=========\n\nEvery public name, package by package. ``import npformer as npf`` gives the first "
        "package; names that are\nnot there are internal and may change.\n\n"
        f".. list-table::\n   :widths: 30 70\n\n{rows}\n\n.. toctree::\n   :hidden:\n\n{listed}\n",
    )


def first_line(package: str) -> str:
    """What a package says of itself, in one line."""
    text = (importlib.import_module(package).__doc__ or "").partition("\n\n")[0]
    return " ".join(text.split()).replace("*", r"\*")


def page(package: str) -> str:
    """All names of a package."""
    own = [name for name in names(package) if home(package, name) == f"{package}.{name}"]
    parts = [package, "=" * len(package), "", f".. automodule:: {package}", "   :no-members:", ""]
    for name in own:
        parts += entry(package, name)
    others = [home(package, name) for name in names(package) if name not in own]
    if others:
        parts += ["Described elsewhere", "-" * 19, "", *(f"* {reference(each)}" for each in others)]
    return "\n".join(parts) + "\n"


def reference(name: str) -> str:
    """A link to where a name is described."""
    found = thing(*name.rsplit(".", 1)[0:1], name.rsplit(".", 1)[1])
    return f":doc:`{name}`" if isinstance(found, ModuleType) and name in packages() else f":py:obj:`{name}`"


def entry(package: str, name: str) -> list[str]:
    """The directive that describes a name, under a heading of its own."""
    found = thing(package, name)
    head = [name, "-" * len(name), ""]
    if isinstance(found, ModuleType):
        return [*head, f":doc:`{found.__name__}`" if found.__name__ in packages() else f"``{found.__name__}``", ""]
    if inspect.isclass(found):
        bases = ["   :show-inheritance:"] if found.__bases__ != (object,) else []
        return [*head, f".. autoclass:: {package}.{name}", "   :members:", *bases, ""]
    if inspect.isroutine(found):
        return [*head, f".. autofunction:: {package}.{name}", ""]
    return [*head, f".. autodata:: {package}.{name}", "   :no-value:", ""]
