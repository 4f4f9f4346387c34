"""Docstrings, which are plain text with formulas indented by four spaces, as Markdown or as reStructuredText."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import NamedTuple

CODE = re.compile(r"``(.+?)``", re.DOTALL)
_MARKDOWN = re.compile(r"([\\`_\[\]<>$|{}~^])")
_RST = re.compile(r"([\\`*_|]|:(?=:))")
_ITEM = re.compile(r"(?:[-*]|\d+\.) ")
_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


class Block(NamedTuple):
    """A paragraph of sentences, or indented lines: formulas, code, an output."""

    is_formula: bool
    text: str


def blocks(docstring: str) -> list[Block]:
    """The paragraphs and the indented parts, in their order. Blank lines between indented parts are kept."""
    found: list[Block] = []
    for part in re.split(r"\n\s*\n", inspect.cleandoc(docstring)):
        is_formula = part.startswith("    ") or part.startswith(("├", "└"))
        if is_formula and found and found[-1].is_formula:
            found[-1] = Block(True, f"{found[-1].text}\n\n{part}")
        elif part.strip():
            found.append(Block(is_formula, part))
    return [Block(each.is_formula, inspect.cleandoc("\n" + each.text)) for each in found]


def markdown(docstring: str) -> str:
    """A docstring as Markdown; formulas become blocks of text, and numbers of arXiv become links."""
    return "\n\n".join(map(shown, blocks(docstring)))


def shown(block: Block) -> str:
    """A paragraph or formula as Markdown."""
    return f"```text\n{block.text}\n```" if block.is_formula else sentences(block.text)


def sentences(text: str) -> str:
    """A paragraph as Markdown: *emphasis* and ``code`` are kept, all else means itself."""
    shown = _outside_code(text, lambda plain: _MARKDOWN.sub(r"\\\1", plain), lambda code: f"`{code}`")
    return _ARXIV.sub(r"[arXiv:\1](https://arxiv.org/abs/\1)", shown)


def rst(docstring: str) -> list[str]:
    """The lines of a docstring as reStructuredText, for autodoc."""
    lines: list[str] = []
    for each in blocks(docstring):
        if each.is_formula:
            lines += ["", ".. code-block:: text", "", *(f"   {line}" for line in each.text.splitlines()), ""]
        else:
            text = _outside_code(each.text, lambda plain: _RST.sub(r"\\\1", plain), lambda code: f"``{code}``")
            lines += ["", *_unindented(text), ""]
    return lines


def _unindented(text: str) -> list[str]:
    """Lines that begin no item of a list lose their indentation, which would mean something."""
    lines = text.splitlines()
    has_items = any(_ITEM.match(line.replace("\\*", "*").lstrip()) for line in lines)
    return lines if has_items else [line.strip() for line in lines]


def _outside_code(text: str, plain: Callable[[str], str], code: Callable[[str], str]) -> str:
    """The text with one function applied to what stands between double backticks and another to all else."""
    parts = CODE.split(text)
    return "".join(code(part.replace("\n", " ")) if i % 2 else plain(part) for i, part in enumerate(parts))
