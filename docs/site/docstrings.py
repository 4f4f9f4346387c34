"""Docstrings for autodoc: npformer's are plain text, in which formulas stand indented."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

from docs.site.plain_text import rst


def _as_rst(app: Sphinx, what: str, name: str, obj: object, options: Any, lines: list[str]) -> None:
    made = lines[:1] and lines[0].startswith("Alias for field number")  # by NamedTuple; the field's comment says more
    lines[:] = [] if made else rst("\n".join(lines))


def _signature(
    app: Sphinx, what: str, name: str, obj: object, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """Types without the module that they are from, and values made anew each time as dots."""
    plain = signature and signature.replace("~typing.", "").replace("=<factory>", " = …")
    return plain, returns and returns.replace("~typing.", "")


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to autodoc."""
    app.connect("autodoc-process-docstring", _as_rst)
    app.connect("autodoc-process-signature", _signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
