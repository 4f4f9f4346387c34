"""A browser for tests. Where none is to be had they are skipped, and say so.

A test that asks for the fixture ``browser`` fails at its end if the page logged an error, or asked for anything beyond
its own files.
"""

import pytest

from tests.chromium import Browser, browser_problem


@pytest.fixture(scope="session")
def chromium():
    """One process for all tests in a browser."""
    problem = browser_problem()
    if problem is not None:
        pytest.skip(f"no browser: {problem}")
    browser = Browser()
    yield browser
    browser.driver.quit()


@pytest.fixture
def browser(chromium):
    """An empty browser. Fails the test if its pages log an error, or ask for anything but their own files."""
    chromium.begin()
    yield chromium
    chromium.expect_silence()
