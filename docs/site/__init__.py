"""The site: what stands in docs, in the docstrings, in the museum and in the grader, as pages that need no network.

    pip install -e '.[docs]'
    python -m docs.site                 writes build/site; open build/site/index.html

``assemble`` writes the sources of all pages into build/site-sources: the pages of docs as they are, and pages made
by ``operations``, ``walk``, ``course``, ``museum``, ``experiments``, ``api`` and ``sources`` (a page for each file that
is named). Sphinx then makes HTML of them, with ``conf``, its own autodoc, autosummary and literalinclude, and the
extensions ``mathml`` (formulas), ``sources`` (links of files' names) and ``docstrings``. No text stands in two places:
a page is changed where its text stands.
"""
