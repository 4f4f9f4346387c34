"""Finds the mistake in a wrong backward by undoing it: ``search.py`` tries the changes that ``edits.py`` proposes."""

from npformer.proof.repairs.search import Repair, repairs_of

__all__ = ["Repair", "repairs_of"]
