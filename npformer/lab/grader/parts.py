"""The exercises' reference pairs, in plain NumPy: operations, and composites of them.

A pair of ``npformer.functional`` is rewritten as a learner would write it: the text is that of the operation's own
file, with NumPy alone, caches as tuples, no checks of shapes, and dropout's mask and the visible keys as arguments.
exercises.toml has the pairs that are no operation: dropout with its random decisions given, which makes a learner's
forward repeatable, and what layers do. A template is the text of a pair without the body of its backward; ``parts`` in
a learner's file stands for the exercises before it.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from npformer.check.checkable import listed
from npformer.functional import OPERATIONS, Operation, heads

Function = Callable[..., Any]

#: exercises.toml.
TOLD: dict[str, Any] = tomllib.loads(Path(__file__).with_name("exercises.toml").read_text(encoding="utf-8"))
#: What a learner's forward has in the place of an argument, by its type, and what the docstring says of it.
_INSTEAD = {"AttentionMask": "visible=None", "Draw | None": "keep=None", "Bits": "scale=1.0"}
_SAID = {
    "visible=None": "visible is boolean, fits (B, H, T, S) and is True where a query may look.",
    "keep=None": "keep is dropout's mask, scale its factor; keep None: nothing is dropped.",
}
#: What is written in another way, one after the other.
_REWRITTEN = (
    (r"^ +expect_\w+\(.*\n", ""),
    (r"^ +if .*:\n +raise .*\n", ""),
    (r"^ +# int64.*\n", ""),
    (r" +# (NumPy 2|not tokens|not x > 0).*", ""),
    (r"\bnamespace\(\w+\)\.", "np."),
    (r"\breal_part\((\w+)\)", r"\1"),
    (r"\bas_rows\((\w+)\)", r"\1.reshape(-1, \1.shape[-1])"),
    (r", (device=device_of\(\w+\)|dtype=np\.int64|dtype=dy\.dtype)", ""),
    (r"np\.astype\((\w+|np\.reshape\(.*\)), np\.int64(, copy=False)?\)", r"\1"),
    (r"np\.astype\((.*), \w+\.dtype\)", r"\1"),
    (r"np\.zeros_like\(\w+\)", "0.0"),
    (r"np\.ones_like\(\w+\)", "1.0"),
    (r"np\.full_like\(\w+, (.*?)\)", r"\1"),
    (r"\(\*(\w+\.shape(?:\[:-1\])?), (\w+)\.shape\[1\]\)", r"\1 + \2.shape[1:]"),
    (r"\bvisible\.visible\(.*, \w+\)", "visible"),
    (r"ACTIVATIONS\[\w+\]\[0\]", "relu_forward"),
    (r"ACTIVATIONS\[\w+\]\[1\]", "relu_backward"),
    (r"\bactivation, ", ""),
    (r"\b[A-Z]\w+Cache\(([^,()]*)\)", r"\1"),
    (r"\b[A-Z]\w+Cache\(", "("),
    (r"return \((.*),\)", r"return \1"),
    (r"^( +)\((\w+),\) = ", r"\1\2 = "),
    (r"\b(\w+)\.y\b", r"\1"),
)
_NUMPY_HAS_NO_ERF = "erf = np.vectorize(math.erf, otypes=[float])  # NumPy has none"


def imports(text: str) -> str:
    """What these functions need beside each other."""
    erf = _NUMPY_HAS_NO_ERF if re.search(r"\berf\b", text) else ""
    return "\n\n".join(filter(None, ("import math" if "math." in text + erf else "", "import numpy as np", erf)))


def _rewritten(function: Function, doc: str, fields: dict[str, str]) -> str:
    """The text of a function of npformer's; fields: those of its operation's cache, with their types."""
    head = r'def .*? -> .*?:\n(?: +""".*?"""\n)?'
    code = re.sub(head, "", inspect.getsource(function), count=1, flags=re.S).rstrip()
    if "cache." in code:
        code = f"    {', '.join(fields)} = cache\n{code}".replace("cache.", "")
    library = re.search(r"^ +(\w+)(, device)? = namespace\(\w+\)(, .*)?\n", code, re.M)
    if library:
        code = code.replace(library[0], "").replace(f"{library[1]}.", "np.")
    arguments = _arguments(function)
    for name, given in arguments.items():
        code = re.sub(rf"\b{name}\b", given.partition("=")[0], code)
    for pattern, new in _REWRITTEN:
        code = re.sub(pattern, new, code, flags=re.M)
    for field, kind in fields.items():
        if "Cache" in kind:
            code = re.sub(rf"\b{field}\b", f"{field}_cache", code)
    quoted = f'"""{doc}\n"""\n' if "\n" in doc else f'"""{doc}"""\n' if doc else ""
    return f"def {function.__name__}({', '.join(arguments.values())}):\n{textwrap.indent(quoted, '    ')}{code}"


def _arguments(function: Function) -> dict[str, str]:
    """Name -> what a learner's function has in its place; an activation is ReLU."""
    found = {}
    for name, given in inspect.signature(function).parameters.items():
        default = "=1e-5" if name == "eps" else "" if given.default is given.empty else f"={given.default}"
        found[name] = _INSTEAD.get(given.annotation, name + default)
    found.pop("activation", None)
    return found


def _doc(function: Function) -> str:
    """A docstring in one line."""
    return " ".join((inspect.getdoc(function) or "").split())


def _told(row: Operation) -> str:
    """What the docstring of a learner's forward says."""
    arguments = _arguments(row.forward)
    other = [name for name, given in arguments.items() if name != given.partition("=")[0]]
    left_out = re.compile(r"Raises |.*\b(" + "|".join(("checked where", *other)) + r")\b")
    kept = " ".join(text for text in re.split(r"(?<=\.) ", _doc(row.forward)) if not left_out.match(text))
    kept = kept.replace('the activation "relu" or "gelu"', "ReLU")
    kept = re.sub(r"(Returns .*?)\.(?= |$)", r"\1, and a cache.", kept)
    said = " ".join(_SAID[arguments[name]] for name in other if arguments[name] in _SAID)
    return "\n\n".join(textwrap.fill(text, 110) for text in (kept, said) if text)


def _asked(row: Operation) -> str:
    """What the docstring of a learner's backward says."""
    gradients, more = re.findall(r"Gradients? \((.*?),?\) of \w+[.;] ?(.*)", _doc(row.backward))[0]
    dy = next(iter(inspect.signature(row.backward).parameters))
    shape = re.findall(rf"Returns {dy[1:]} (\(.*?\))\.", _doc(row.forward))
    returned = f"({gradients}), in this order" if " d" in gradients else gradients
    return textwrap.fill(f"{more or f'{dy} {shape[0]} is the gradient of {dy[1:]}.'} Returns {returned}.", 110)


def _pair(row: Operation) -> Iterator[str]:
    """The texts of an operation."""
    module = vars(sys.modules[row.forward.__module__])
    cache = module[inspect.signature(row.backward).parameters["cache"].annotation]
    fields = {name: str(kind) for name, kind in cache.__annotations__.items() if name != "activation"}
    helpers = [module[name] for name in row.forward.__code__.co_names if name.startswith("_")]
    texts = [_rewritten(helper, inspect.getdoc(helper) or "", {}) for helper in helpers]
    yield "\n\n\n".join([*texts, _rewritten(row.forward, _told(row), fields)])
    yield _rewritten(row.backward, _asked(row), fields)


def _texts() -> Iterator[str]:
    for function in (heads.split_heads, heads.merge_heads):
        yield _rewritten(function, _doc(function).partition(" Raises")[0], {})
    for name, told in TOLD["exercises"].items():
        yield from told["code"].strip().split("\n\n\n") if "code" in told else _pair(OPERATIONS[name])


#: The text of every function, with those that it alone calls before it.
TEXTS = {re.findall(r"^def ([a-z]\w+)", text, re.M)[-1]: text for text in _texts()}
_whole = f"{imports(_NUMPY_HAS_NO_ERF)}\n\n\n" + "\n\n\n".join(TEXTS.values())
_functions: dict[str, Any] = {}
exec(compile(_whole, listed(_whole, f"<{__name__}>"), "exec"), _functions)
#: The functions.
FUNCTIONS: dict[str, Function] = {name: _functions[name] for name in TEXTS}
