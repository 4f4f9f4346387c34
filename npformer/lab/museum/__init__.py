"""The museum: real bugs and similar ones, as small changes of the correct code, and what finds them.

The bugs are in ``bugs.toml``. ``benchmarks/museum/examine.py`` asks what finds each, ``exhibits.jsonl`` keeps the
answers.
"""
