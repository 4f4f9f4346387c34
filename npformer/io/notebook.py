"""Objects that a prompt and a notebook show as ``print`` does, and a notebook as HTML, too."""

from __future__ import annotations

from npformer.late import higher


class Displayed:
    """Base of what shows itself: its repr is its text, and ``npformer.see.page.notebook`` has its HTML.

    For a class with a ``__str__`` of its own; a dataclass needs ``repr=False``.
    """

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Asked for by Jupyter. The pages are imported by name: they stand above all that they show."""
        return str(higher("npformer.see.page.notebook").html_of(self))
