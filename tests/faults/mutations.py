"""Damage to files: flipped bits, lost bytes, huge numbers, deep nesting, changed types."""

import json
import re

LONG = 1 << 20  # length of a long line in bytes
_VALUE = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|\"[^\"\n]{0,40}\"")
#: Replacements for a value in a JSON tree; the sizes are plausible: does a reader check one before it allocates?
_SIZES = [4096, 8192, 10_000, 1_000_000, 2**31 - 1]
_NODES = [None, True, False, 0, -1, 2**63, 10**30, 1.5, float("nan"), float("inf"), "", "text", [], {}, [1],
          {"a": 1}, "9" * 5000, *_SIZES]  # fmt: skip
#: Replacements for a value in a text.
_WORDS = [b"9" * 5000, b"1e999", b"-1e308", b"1e-320", b"-Infinity", b"nan", b"0x" + b"f" * 40, b"1_000", b"1.", b"+7",
          "٣".encode(), b"2020-01-01", b"'", b'"""', b"[" * 60 + b"]" * 60]  # fmt: skip
_WORDS += [json.dumps(node).encode() for node in (*_NODES, *_SIZES, *_SIZES)]
_OPENINGS, _FILLINGS = (b"[", b"{", b'{"a":', b"("), (b"x", b"1 ", b" ", b"9", b"a.", b"\t", b'"', b"=", "é".encode())


def mutated(data, draw):
    """The bytes after one to three mutations; half of the time, after one replaced value only."""
    if draw.random() < 0.5:
        return _replaced(data, draw)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        data = draw.choice((_flipped, _flipped, _cut, _spliced, _spliced, _spliced, _lines, _replaced))(data, draw)
    return data


def mutated_tree(tree, draw):
    """A copy of a JSON tree with one value replaced, removed or nested; the tree itself is not changed."""
    if isinstance(tree, dict | list) and tree and draw.random() < 0.85:
        changed = tree.copy()
        place = draw.choice(list(tree) if isinstance(tree, dict) else range(len(tree)))
        if draw.random() < 0.1:
            del changed[place]
        else:
            changed[place] = mutated_tree(tree[place], draw)
        return changed
    if draw.random() < 0.1:
        for _ in range(draw.choice((1, 50, 300))):
            tree = [tree]
        return tree
    return draw.choice(_SIZES if isinstance(tree, int) and draw.random() < 0.5 else _NODES)


def _place(data, draw):
    """A random position, more often near the beginning, where headers are."""
    return draw.randrange(min(len(data), draw.choice((16, 400, len(data) + 1))) + 1)


def _flipped(data, draw):
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8)) if data else 0):
        changed[min(_place(data, draw), len(data) - 1)] ^= 1 << draw.randrange(8)
    return bytes(changed)


def _cut(data, draw):
    return data[: _place(data, draw)]


def _spliced(data, draw):
    """Some bytes are lost, zeroed, repeated, or come after others."""
    start = _place(data, draw)
    stop = start + draw.choice((0, 1, 4, 16, 100, 1000))
    part, filling = data[start:stop], draw.choice(_FILLINGS)
    more = draw.randbytes(draw.choice((1, 8, 300))), filling * (LONG // len(filling))
    nested = draw.choice(_OPENINGS) * draw.choice((50, 1000, 100_000))
    new = draw.choice((b"", bytes(len(part)), part * draw.choice((2, 31)), *(each + part for each in (*more, nested))))
    return data[:start] + new + data[stop:]


def _lines(data, draw):
    """Swap two lines, repeat one, or change line endings."""
    lines = data.split(b"\n")
    i, j = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[i : i + 1] = draw.choice(([lines[j]], [lines[i], lines[j]]))
    return draw.choice((b"\n", b"\n", b"\r\n", b"\r", b"\n\n")).join(lines)


def _replaced(data, draw):
    matches = list(_VALUE.finditer(data[:20_000]))
    if not matches:
        return draw.choice((b"", b"\n", b"\0", b"\xef\xbb\xbf", b"{}", b"[]"))
    match = draw.choice(matches)
    return data[: match.start()] + draw.choice(_WORDS) + data[match.end() :]
