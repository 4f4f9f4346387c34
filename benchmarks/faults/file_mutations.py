"""Damage to files: flipped bits, lost bytes, huge numbers, deep nesting, changed types."""

import re

LONG = 1 << 20  # length of a long line in bytes

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_VALUE = re.compile(rb"-?\d+(?:\.\d+)?|true|false|null|\"[^\"\n]{0,40}\"")
#: Plausible sizes: they show whether a reader checks a size before it allocates.
_LARGE = [4096, 8192, 10_000, 1_000_000, 2**31 - 1]
_NUMBERS = [b"0", b"-1", b"1000000000", b"2147483648", b"9223372036854775808", b"1" + b"0" * 30, b"9" * 5000, b"1e999",
            b"-1e308", b"1e-320", b"NaN", b"Infinity", b"-Infinity", b"nan", b"inf", b"0x" + b"f" * 40, b"0.5", b"8192",
            b"1_000", b"1.", b"+7", "٣".encode()]  # fmt: skip
_NUMBERS += 3 * [str(number).encode() for number in _LARGE]
_VALUES = [b'"text"', b"null", b"true", b"false", b"[]", b"{}", b"[1]", b'{"a": 1}', b"1.5", b"-3", b'"none"', b'""']
_VALUES += [b"[" * 60 + b"]" * 60, b"2020-01-01", b"'", b'"""']

#: Replacements for a value in a JSON tree.
_NODES = [None, True, False, 0, -1, 2**63, 10**30, 1.5, float("nan"), float("inf"), "", "text", [], {}, [1],
                     {"a": 1}, "9" * 5000]  # fmt: skip


def mutated(data, draw):
    """The bytes after one to three mutations; half of the time, after one replaced value only."""
    if draw.random() < 0.5:
        return draw.choice((_NUMBERS_CHANGE, _TYPES_CHANGE))(data, draw)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        data = draw.choice(_HAPPENINGS)(data, draw)
    return data


def mutated_tree(tree, draw):
    """A copy of a JSON tree with one value replaced, removed or nested; the tree itself is not changed."""
    if isinstance(tree, dict | list) and tree and draw.random() < 0.85:
        changed = dict(tree) if isinstance(tree, dict) else list(tree)
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
    return draw.choice(_LARGE if isinstance(tree, int) and draw.random() < 0.5 else _NODES)


def _place(data, draw):
    """A random position, more often near the beginning, where headers are."""
    return draw.randrange(min(len(data), draw.choice((16, 400, len(data) + 1))) + 1) if data else 0


def _chunk(data, draw):
    start = _place(data, draw)
    return start, min(len(data), start + draw.choice((1, 4, 16, 100, 1000)))


def _flip(data, draw):
    flipped = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 8)) if data else 0):
        flipped[min(_place(data, draw), len(data) - 1)] ^= 1 << draw.randrange(8)
    return bytes(flipped)


def _truncate(data, draw):
    return data[: _place(data, draw)]


def _insert(data, draw):
    place = _place(data, draw)
    return data[:place] + draw.randbytes(draw.choice((1, 2, 8, 300))) + data[place:]


def _remove(data, draw):
    start, stop = _chunk(data, draw)
    return data[:start] + data[stop:]


def _repeat(data, draw):
    start, stop = _chunk(data, draw)
    return data[:stop] + data[start:stop] * draw.choice((1, 2, 30)) + data[stop:]


def _zero(data, draw):
    start, stop = _chunk(data, draw)
    return data[:start] + bytes(stop - start) + data[stop:]


def _swapped(pattern, others):
    def swap(data, draw):
        matches = list(pattern.finditer(data[:20_000]))
        if not matches:
            return _insert(data, draw)
        match = draw.choice(matches)
        return data[: match.start()] + draw.choice(others) + data[match.end() :]

    return swap


def _nest(data, draw):
    place, opening = _place(data, draw), draw.choice((b"[", b"{", b'{"a":', b"("))
    return data[:place] + opening * draw.choice((50, 1000, 100_000)) + data[place:]


def _lengthen(data, draw):
    place, filling = _place(data, draw), draw.choice((b"x", b"1 ", b" ", b"9", b"a.", b"\t", b'"', b"=", "é".encode()))
    return data[:place] + filling * (LONG // len(filling)) + data[place:]


def _lines(data, draw):
    """Repeat a line, reorder lines, or change line endings."""
    lines = data.split(b"\n")
    i, j = draw.randrange(len(lines)), draw.randrange(len(lines))
    if draw.random() < 0.4:
        lines.insert(j, lines[i])
    else:
        lines[i], lines[j] = lines[j], lines[i]
    return draw.choice((b"\n", b"\n", b"\r\n", b"\r", b"\n\n")).join(lines)


def _empty(data, draw):
    return draw.choice((b"", b"\n", b"\0", b"\xef\xbb\xbf", b"{}", b"[]"))


_NUMBERS_CHANGE, _TYPES_CHANGE = _swapped(_NUMBER, _NUMBERS), _swapped(_VALUE, _VALUES)
_HAPPENINGS = [_flip, _flip, _truncate, _insert, _remove, _repeat, _zero, _nest, _lengthen, _lines, _empty]
_HAPPENINGS += [_NUMBERS_CHANGE, _TYPES_CHANGE]
