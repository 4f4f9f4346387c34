"""The trace that the tests of pages look at, recorded once."""

from __future__ import annotations

import pytest

from npformer.pages.bugs import bug_traces
from npformer.proof.showcase import showcase


@pytest.fixture(scope="session")
def shown():
    """The showcase's trace."""
    return showcase()


@pytest.fixture(scope="session")
def bugs(shown):
    """The usual bugs in the showcase's trace."""
    return bug_traces(showcase, shown)
