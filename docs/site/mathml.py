"""Formulas as MathML, which browsers typeset by themselves: no script, no pictures, read aloud by screen readers.

docutils, on which Sphinx stands, translates TeX to MathML when the site is built. So a page needs neither a network nor
JavaScript for its formulas. The font is a part of the site (``style.css`` names it), because not every system has one
for mathematics.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def mathml(tex: str, *, block: bool) -> str:
    """TeX as <math>; lines of a block end with two backslashes. Raises MathError for what it does not know."""
    lines = [line.strip() for line in tex.strip().split(r"\\")]
    if not block or len(lines) == 1 or r"\begin" in tex:
        return tex2mathml(tex.strip(), as_block=block)
    return "".join(tex2mathml(line, as_block=True) for line in lines if line)


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(mathml(node.astext(), block=False))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math-block" tabindex="0">{mathml(node.astext(), block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer under the name "mathml"."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
