"""The mistake in a wrong backward, found by undoing it: ``search.py`` tries what ``edits.py`` proposes."""

from npformer.proof.repairs.search import Repair, repairs_of

__all__ = ["Repair", "repairs_of"]
