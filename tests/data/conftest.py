"""Data made by the tests is kept for their time, and not among the user's."""

import pytest


@pytest.fixture
def path(tmp_path):
    """A file of a test's own."""
    return tmp_path / "a.txt"


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NPFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
