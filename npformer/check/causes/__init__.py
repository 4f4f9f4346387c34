"""Finds the mistake in a wrong backward by undoing it: ``search.py`` tries the changes that ``edits.py`` proposes."""

from npformer.check.causes.elsewhere import Elsewhere
from npformer.check.causes.search import Point, Repair, repairs_of
from npformer.check.causes.trial import plain

__all__ = ["Elsewhere", "Point", "Repair", "plain", "repairs_of"]
