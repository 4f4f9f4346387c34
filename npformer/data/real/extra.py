"""The optional packages that make data."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from npformer.errors import ConfigError
from npformer.extras import install


def expect_extra(package: str, task: str) -> str:
    """The version of a package. Raises ConfigError, naming the extra that contains it, if it is not installed."""
    try:
        if find_spec(package) is not None:
            return version(package)
    except PackageNotFoundError:
        pass
    raise ConfigError(
        f"task: expected the package {package}, which makes the data of {task}, but it is not installed; "
        f"try: {install('data')}"
    )
