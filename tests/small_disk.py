"""A file system of a test's own, mounted where the commands started through it, and they alone, see it."""

import os
import subprocess

import pytest


def mounted(folder, options):
    """The words before a command that let it find an empty tmpfs with these options at folder; else it skips."""
    unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    words = [*unshare, "sh", "-c", f'mount -t tmpfs -o {options} none "$0" && exec "$@"', str(folder)]
    try:
        tried = subprocess.run([*words, "true"], capture_output=True, text=True)
    except FileNotFoundError as error:
        pytest.skip(f"cannot mount here: {error}")
    if tried.returncode:
        pytest.skip(f"cannot mount here: {tried.stderr.strip()}")
    return words
