"""Held-out examples at the end of a run: the outputs aligned, and what was expected where one is wrong."""

from npformer.cli.train import example_line


def test_an_example_stands_on_one_line():
    assert example_line("bot", "tob", "tob", width=5) == "  bot   → tob"
    assert example_line("bot", "tbo", "tob", width=3) == "  bot → tbo   (expected tob)"
