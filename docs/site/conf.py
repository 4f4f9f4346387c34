"""Sphinx's configuration; ``python -m docs.site`` runs it on the sources that ``assemble`` has written."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))  # for Sphinx's own processes

import npformer  # noqa: E402
from docs.site.places import SOURCES  # noqa: E402

project = "npformer"
version = release = npformer.__version__
html_title = "npformer"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
extensions += ["docs.site.docstrings", "docs.site.mathml", "docs.site.sources"]
exclude_patterns = ["_font", "_extra"]
highlight_language = "text"
smartquotes_action = "qe"  # quotes and dots, not dashes: `--hint` is an option

myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_display_short_literal_types = True
maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_math_renderer = "mathml"
html_static_path = ["theme", str(SOURCES / "_font")]
html_extra_path = [str(SOURCES / "_extra")]
html_css_files = ["style.css"]
html_js_files = [("frames.js", {"defer": "defer"})]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_show_search_summary = False  # it fetches pages, which browsers forbid to pages that come from a disk
pygments_dark_style = "a11y-dark"  # as furo's own for light pages: each colour has a contrast of 4.5 or more
html_theme_options = {
    "navigation_with_keys": True,
    # as on the pages of traces: forward and backward, positive and negative; as in pictures of runs: right and wrong
    "light_css_variables": {
        "forward": "#0f766e", "backward": "#8a4b08", "positive": "#b2182b", "negative": "#2166ac",
        "right": "#0072b2", "wrong": "#b34700",
    },
    "dark_css_variables": {
        "forward": "#4fc7b8", "backward": "#f0b05e", "positive": "#ff7a66", "negative": "#62a8f5",
        "right": "#58a6e8", "wrong": "#f0883e",
    },
}  # fmt: skip
