"""One HTML file that asks for nothing: styles, scripts and data inside, and a policy that forbids everything else.

The page's content-security-policy names the hash of its one style sheet and of its one script. So a browser runs these
two texts and nothing else: no request, no other script, no style attribute, no eval. Data stand in blocks that are no
scripts. Scripts put text on the page as text, never as HTML.

A script is written as JavaScript modules, one file each, that import each other. A page opened from disk
can load no second file, so ``bundle`` writes them one after the other, in the order in which they need each other.

Arrays are one text of a page (``Pack``): float64, one after the other, compressed, in base64.

Integers and booleans are written as float64, too; ids are far below 2⁵³. An array that occurs twice is stored once.
The page finds an array by its place: [kind "f" | "i" | "b", shape, index of its first number].
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from math import inf
from typing import Any

import numpy as np

from npformer._version import __version__
from npformer.io.printable import escaped
from npformer.typing import HostArray

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./(?P<name>[a-z_]+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function |const |class )", re.MULTILINE)
#: kind, shape, index of the first number
Place = list[Any]


def web_file(name: str) -> str:
    """The text of a file in the folder ``web`` of this package."""
    return (files("npformer.see.page") / "web" / name).read_text(encoding="utf-8")


@cache
def bundle(start: str) -> str:
    """The module ``start`` (without .js) and all that it imports, as the text of one module."""
    ordered: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in ordered:
            text = web_file(f"{name}.js")
            for match in _IMPORT.finditer(text):
                add(match["name"])
            ordered[name] = _EXPORT.sub("", _IMPORT.sub("", text))

    add(start)
    return '"use strict";\n' + "\n".join(ordered.values())


def html_page(
    title: str, *, style: str, script: str | None = None, data: Mapping[str, Any] | None = None, body: str = ""
) -> str:
    """A whole page. title is any text; style, script and body are this package's own; data are any values of JSON.

    Each of data becomes a block ``<script type="application/json" id="…">``, in which no text can end the block.
    Without a script the policy forbids them all. Texts of users in the body are escaped by the caller: ``escaped``.
    """
    scripts = "'none'" if script is None else _hash(script)
    policy = f"default-src 'none'; base-uri 'none'; form-action 'none'; script-src {scripts}; style-src {_hash(style)}"
    last = "" if script is None else f'<script type="module">{script}</script>\n'
    blocks = "\n".join(
        f'<script type="application/json" id="{name}">{_json(value)}</script>' for name, value in (data or {}).items()
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="generator" content="npformer {__version__}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escaped(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
{blocks}
{last}</body>
</html>
"""


def _json(value: Any) -> str:
    r"""JSON in which < is written as \u003c, so that nothing in it ends the block or begins a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


class Pack:
    """Collects arrays; ``places`` says where each lies, by its name; ``length`` is how many numbers there are.

    Of an array with more than ``most`` numbers ``left_out`` has the shape, some statistics and the rows that ``keep``
    was told, by their first number.
    """

    def __init__(self, most: float = inf) -> None:
        self.places: dict[str, Place] = {}
        self.left_out: dict[str, dict[str, Any]] = {}
        self._most = most
        self._parts: list[HostArray] = []
        self.length = 0
        self._names: dict[tuple[str, tuple[int, ...], bytes], str] = {}

    def add(self, array: HostArray, name: str = "", *, whole: bool = False) -> str:
        """Store an array of any real dtype, under ``name`` or a new name. Returns the name under which it is found.

        whole: however many numbers it has.
        """
        numbers = np.asarray(array, dtype="<f8")
        if numbers.size > self._most and not whole:
            return self._leave_out(numbers, name)
        kind = {"b": "b", "i": "i", "u": "i"}.get(np.asarray(array).dtype.kind, "f")
        key = (kind, numbers.shape, numbers.tobytes())
        if key in self._names and not name:
            return self._names[key]
        place = self.places[self._names[key]] if key in self._names else [kind, list(numbers.shape), self.length]
        name = name or f"p{len(self.places)}"
        if key not in self._names:
            self._parts.append(numbers.reshape(-1))
            self.length += numbers.size
            self._names[key] = name
        self.places[name] = place
        return name

    def keep(self, name: str, array: HostArray, flat: int) -> None:
        """Store the row of an array, which was left out under this name, in which its number flat is."""
        start = flat - flat % array.shape[-1]
        row = self.add(array.reshape(-1)[start : start + array.shape[-1]], whole=True)
        self.left_out[name]["rows"][str(start)] = row

    def _leave_out(self, numbers: HostArray, name: str) -> str:
        key = ("left out", numbers.shape, numbers.tobytes())
        first = self._names.setdefault(key, name or f"p{len(self.places)}.{len(self.left_out)}")
        if first not in self.left_out:
            with np.errstate(invalid="ignore"):  # −∞, of what a mask hides
                said = {"mean": np.mean(numbers), "deviation": np.std(numbers), "largest": np.max(np.abs(numbers))}
            told = {what: float(x) for what, x in said.items() if np.isfinite(x)}
            self.left_out[first] = {"shape": list(numbers.shape), "rows": {}} | told
        if name:
            self.left_out[name] = self.left_out[first]
        return name or first

    def text(self) -> str:
        """All numbers, little-endian float64, as base64 of a zlib stream: first all first bytes, then all second, …"""
        numbers = np.concatenate(self._parts) if self._parts else np.zeros(0)
        by_place = numbers.astype("<f8").view(np.uint8).reshape(-1, 8).T  # bytes of one place are alike: a quarter less
        return base64.b64encode(zlib.compress(by_place.tobytes(), 9)).decode("ascii")
