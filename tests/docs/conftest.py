"""What tests of the page with exercises need."""

import shutil

import pytest

from docs.site.here import libraries


@pytest.fixture(scope="module")
def fetched():
    """The two libraries; the tests that need them are skipped, visibly, where npm is missing."""
    found = libraries.fetched()
    if isinstance(found, str) or shutil.which("node") is None:
        pytest.skip(str(found) if isinstance(found, str) else "node is missing: apt-get install nodejs")
    return found
