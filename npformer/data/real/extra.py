"""The packages that data is made with, which not everybody has."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from npformer.errors import ConfigError


def expect_extra(package: str, task: str) -> str:
    """The version of a package. Raises ConfigError, naming the extra that brings it, if it is not there."""
    try:
        if find_spec(package) is not None:
            return version(package)
    except PackageNotFoundError:
        pass
    raise ConfigError(
        f"task: expected the package {package}, which {task} is made with, but it is not installed; "
        "try: pip install 'npformer[data]'"
    )
