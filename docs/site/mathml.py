"""Formulas as MathML, which browsers typeset by themselves: no script, no pictures, read aloud by screen readers.

docutils, on which Sphinx stands, translates TeX to MathML when the site is built, and refuses what it does not know. So
a page needs neither a network nor JavaScript for its formulas. The font is a part of the site (``style.css`` names it),
because not every system has one for mathematics.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(tex2mathml(node.astext().strip()))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    formula = tex2mathml(node.astext().strip(), as_block=True)
    translator.body.append(f'<div class="math-block" tabindex="0">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer under the name "mathml"."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
