"""A page for each operation: its formula, its derivation, its code, and what else there is of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any

from docs.site import recordings, traces
from docs.site.formulas import FORMULAS
from docs.site.places import FILES, ROOT, address, text_page, write
from docs.site.plain_text import blocks, sentences, shown
from npformer import functional
from npformer.functional import OPERATIONS, Operation
from npformer.io.progress_bar import watched
from npformer.lab.grader import EXERCISES, Exercise
from npformer.lab.mistake import Mistake
from npformer.lab.museum.bugs import BUGS

PACKAGE = "npformer.functional"
#: How the line of a formula begins that says what comes out.
OUTPUT = re.compile(r"(?:y|y_\{\w+\}|h_\{t\}|\\(?:text|mathrm)\{(?:out|loss|total|bias)\}(?:_\{\w+\})?) = ")
COMMANDS = ("gradcheck --only ", "certify --only ", "explain ")
KERNELS = {"numpy": "NumPy", "numba": "compiled", "cuda": "CUDA"}


def write_all() -> None:
    """The pages, and the list of them in reading order."""
    for name in watched(FILES, "operations", name=str):
        write(f"operations/{name}.md", page(name))
    write("operations/index.md", index())


def index() -> str:
    """All operations, in the order in which a Transformer is explained."""
    rows = "\n".join(f"| [{title(name)}]({name}.md) | {inline(name)} | {sentences(lead(name))} |" for name in FILES)
    return f"""# Operations

Each operation is a forward, and the backward of exactly that forward. A page shows its formula, derives the gradient,
and has the code. Read them from top to bottom: each uses only what stands above it.
[The contract of a pair](contract.md) says what all of them promise.

{{.wide}}
| operation | forward | what it does |
|---|---|---|
{rows}

{contents(["contract", *FILES])}"""


def contents(names: list[str]) -> str:
    """The hidden list of a section's pages, for the sidebar and the way from page to page."""
    listed = "\n".join(names)
    return f"```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


@cache
def module(name: str) -> ModuleType:
    """The module of a file of functional."""
    return import_module(f"{PACKAGE}.{name}")


def operations(name: str) -> list[Operation]:
    """The operations of a file, in their order."""
    return [row for row in OPERATIONS.values() if row.forward.__module__ == f"{PACKAGE}.{name}"]


def file_of(operation: str) -> str:
    """The file of an operation."""
    return OPERATIONS[operation].forward.__module__.rpartition(".")[2]


def opening(name: str) -> tuple[str, str]:
    """The first sentence of a file's docstring, cut into a title and what it says of it."""
    first = (module(name).__doc__ or "").partition("\n\n")[0].replace("\n", " ")
    head, _, rest = first.partition(": ")
    return (head, rest[:1].upper() + rest[1:]) if rest else (first.partition(",")[0], first)


def title(name: str) -> str:
    """The heading of a file's page."""
    return opening(name)[0]


def lead(name: str) -> str:
    """The sentence below the heading."""
    return opening(name)[1]


def inline(name: str) -> str:
    """What the first operation of a file returns, in one short formula, for a table; empty for a file without one."""
    rows = operations(name)
    parts = [part for line in FORMULAS[rows[0].name].forward for part in line.split(r", \qquad ")] if rows else []
    found = min(filter(OUTPUT.match, parts), key=lambda part: (part[0] != "y", "'" in part, len(part)), default="")
    return f"${found}$" if found else ""


def page(name: str) -> str:
    """The page of a file."""
    parts = [
        f"# {title(name)}\n\n{{.lead}}\n{sentences(lead(name))}",
        *(headline(row, len(operations(name)) > 1) for row in operations(name)),
        f"## {'Derivation' if operations(name) else 'How it works'}\n\n{derivation(name)}",
        *(step_by_step(row.name) for row in operations(name)),
        f"## Code\n\n{code(name)}",
        *filter(None, (checks(name), exercise(name), bugs(name), elsewhere(name))),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def headline(row: Operation, named: bool) -> str:
    """The formula of an operation: forward and backward, side by side where there is room."""
    formula = FORMULAS[row.name]
    sides = [
        f":::{{container}} {side}\n**{side.capitalize()}**\n\n{display(getattr(formula, side))}\n:::"
        for side in formula._fields
    ]
    name = f"**{row.name.replace('_', ' ')}**\n\n" if named else ""
    return f"{name}::::{{container}} formulas\n{sides[0]}\n{sides[1]}\n::::"


def display(lines: tuple[str, ...]) -> str:
    """Lines of TeX as displayed formulas."""
    return "\n\n".join(f"$$\n{line}\n$$" for line in lines)


def derivation(name: str) -> str:
    """All of the docstring but its first sentence."""
    return "\n\n".join(map(shown, blocks(module(name).__doc__ or "")[1:]))


def step_by_step(operation: str) -> str:
    """The page that steps through the operation with numbers, within this one."""
    shown = traces.frame(recordings.operation(operation), "operations")
    return f"## Step by step: {operation.replace('_', ' ')}\n\n{shown}" if shown else ""


def code(name: str) -> str:
    """The text of the cache, the forward and the backward, with the lines' numbers in the file."""
    shown = "\n\n".join(map(block, objects(name)))
    return f"From [npformer/functional/{name}.py](/{text_page(f'npformer/functional/{name}.py')}.md):\n\n{shown}"


def block(thing: Any) -> str:
    """A function or class as a block of code."""
    lines, first = inspect.getsourcelines(thing)
    return f"```{{code-block}} python\n:lineno-start: {first}\n:linenos:\n\n{''.join(lines).rstrip()}\n```"


def objects(name: str) -> list[Any]:
    """What a page shows of a file: pairs with their caches; without an operation, all that others may use."""
    here = [x for x in vars(module(name)).values() if getattr(x, "__module__", "") == f"{PACKAGE}.{name}"]
    defined = [x for x in here if isinstance(x, (FunctionType, type)) and not x.__name__.startswith("_")]
    if operations(name):
        pairs = {f for row in operations(name) for f in (row.forward.__name__, row.backward.__name__)}
        defined = [x for x in defined if x.__name__ in pairs or x.__name__.endswith("Cache")]
    elif public := [x for x in defined if x.__name__ in functional.__all__]:
        defined = public
    return sorted(defined, key=lambda x: inspect.getsourcelines(x)[1])


def checks(name: str) -> str:
    """The commands that prove the operation."""
    rows = operations(name)
    if not rows:
        return ""
    lines = [f"npformer {words}{row.name}" for row in rows for words in COMMANDS]
    return (
        "## Prove it\n\n`gradcheck` compares every gradient with two numerical witnesses, `certify` tries invariants, "
        "and `explain` shows the numbers that each line makes:\n\n"
        "```sh\n" + "\n".join(lines) + "\n```"
    )


def exercises(name: str) -> list[Exercise]:
    """The exercises that this file answers."""
    return [each for each in EXERCISES if f"{PACKAGE}.{name}" in each.docs.split()]


def exercise(name: str) -> str:
    """Where to write it oneself."""
    links = [f"[{each.title}](../course/{each.name}.md)" for each in exercises(name)]
    return f"## Write it yourself\n\nExercise: {', '.join(links)}." if links else ""


def bugs_of(name: str) -> list[Mistake]:
    """The museum's bugs in this file."""
    return [bug for bug in BUGS if any(edit.where.startswith(f"{PACKAGE}.{name}:") for edit in bug.edits)]


def bugs(name: str) -> str:
    """The museum's bugs in this file, one line each."""
    rows = [
        f"| [{sentences(bug.title)}](../museum/{bug.id}.md) | `{formula_line(bug.wrong)}` |" for bug in bugs_of(name)
    ]
    head = "## Bugs seen in it\n\n| bug | what was computed |\n|---|---|\n"
    return head + "\n".join(rows) if rows else ""


def formula_line(text: str) -> str:
    """A formula as the text of a cell."""
    return " ".join(text.split()).replace("|", r"\|").replace("`", "'")


def elsewhere(name: str) -> str:
    """Faster kernels, tests, and who uses it."""
    lines = [*_kernels(name), *_tests(name), *_users(name)]
    return "## Elsewhere\n\n" + "\n".join(lines) if lines else ""


def _kernels(name: str) -> Iterator[str]:
    found = [
        f"[{said}]({address(f'npformer/backend/{kernels}/{name}.{end}')})"
        for kernels, said in KERNELS.items()
        for end in ("py", "cu")
        if (ROOT / f"npformer/backend/{kernels}/{name}.{end}").is_file() and (end, kernels) != ("py", "cuda")
    ]
    if found:
        yield f"- Faster kernels: {', '.join(found)}"


def _tests(name: str) -> Iterator[str]:
    path = f"tests/functional/test_{name}.py"
    if (ROOT / path).is_file():
        yield f"- Values by hand: `{path}`"


def _users(name: str) -> Iterator[str]:
    names = [f"{row.name}_forward" for row in operations(name)]
    names += [x.__name__ for x in objects(name)] if not names else []
    called = re.compile("|".join([rf"\b{x}\(" for x in names] + [rf"\bops\.{row.name}\." for row in operations(name)]))
    used = [
        path for path, text in _texts().items() if called.search(text) and not path.endswith(f"functional/{name}.py")
    ]
    if used:
        yield "- Used by: " + ", ".join(f"[{path.rpartition('/')[2]}]({address(path)})" for path in used)


@cache
def _texts() -> dict[str, str]:
    """The mathematics, the layers and the models: path -> text."""
    folders = ("functional", "layers", "models")
    files = [path for folder in folders for path in sorted((ROOT / "npformer" / folder).glob("*.py"))]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}
