"""How much of the tests runs: a sample of the cases, as a rule; all of them (--full); a first quick look (-m smoke).

The quick look is the first case of each test of the mathematics and of what is made of it, on NumPy alone: Numba is
as good as not installed, and a file that starts other processes is left out, so nothing is compiled.
"""

import json
import sys
from pathlib import Path

import pytest

from npformer.backend import select
from tests.sampling import sampled

#: Folders whose tests are in the quick look.
SMOKE = ("functional", "layers", "models", "optim")
HERE = Path(__file__).parent
#: Where a run leaves the names of the tests that it skipped.
SKIPPED = ".pytest_cache/v/npformer/skipped"
#: Names of the tests that run, and files all of whose tests do; None: all.
LISTED = pytest.StashKey[set[str] | None]()


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run every case of every test, not a sample of them")
    told = f"run the tests in FILE alone: {SKIPPED} of another run"
    parser.addoption("--only-from", type=Path, metavar="FILE", help=told)


def pytest_configure(config):
    if is_smoke(config):
        sys.modules["numba"] = None
        select.find_spec = lambda name: None
        return
    listed = config.getoption("only_from")
    config.stash[LISTED] = None if listed is None else set(json.loads(listed.read_text(encoding="utf-8")))


def is_smoke(config):
    """Whether this is the quick look."""
    return bool(config.getoption("markexpr") == "smoke")


def pytest_ignore_collect(collection_path, config):
    """What the quick look, or a list of tests, has nothing of is not even imported."""
    listed = config.stash.get(LISTED, None)
    if listed is not None and collection_path.suffix == ".py" and collection_path.name.startswith("test_"):
        files = {name.partition("::")[0] for name in listed}
        return None if collection_path.relative_to(HERE.parent).as_posix() in files else True
    return True if is_smoke(config) and _folder(collection_path) not in ("", *SMOKE) else None


def _folder(path):
    """The folder of the tests that a path is, or is in; "" for what holds them."""
    return path.relative_to(HERE).parts[0] if HERE in path.parents else ""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark what is for the quick look; leave out what is not of the sample."""
    kept, listed = sampled(items), config.stash.get(LISTED, None)
    _mark_smoke(kept)
    if listed is not None:
        kept = [item for item in kept if item.nodeid in listed or item.nodeid.partition("::")[0] in listed]
    if _takes_all(config):
        return
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


def _takes_all(config):
    """Whether all cases run: who names tests gets all theirs."""
    named = config.getoption("keyword") or any("::" in argument for argument in config.args)
    return config.getoption("full") or named


def _mark_smoke(items):
    """Mark the first case of each function in which nothing that is compiled is asked for by name."""
    first = {item.nodeid.partition("[")[0]: item for item in reversed(items) if _is_quick(item)}
    for item in first.values():
        item.add_marker("smoke")


def _is_quick(item):
    folder, case = _folder(item.path), item.nodeid.partition("[")[2]
    return folder in SMOKE and "subprocess" not in vars(item.module) and "numba" not in case


def pytest_terminal_summary(terminalreporter, config):
    if not _takes_all(config):
        terminalreporter.write_line("a sample of the cases; all: python -m pytest --full")
    if getattr(config, "cache", None) is not None:
        skipped = {report.nodeid for report in terminalreporter.stats.get("skipped", [])}
        config.cache.set(SKIPPED.removeprefix(".pytest_cache/v/"), sorted(skipped))
