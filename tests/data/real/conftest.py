"""Data made by the tests is kept for their time, and not among the user's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NPFORMER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
