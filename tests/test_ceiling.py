"""No room grows unnoticed: each has a ceiling of code tokens. Who raises one writes the reason beside it.

Code tokens are Python's, without comments and docstrings; data written as code counts. A ceiling was set 5 % above what
the room held. An addition that does not fit replaces something, or raises the ceiling here, with what it is for.
"""

import ast
import io
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip

#: Room -> its ceiling. A file at the root of the package or of the tests is in the room ".".
CEILINGS = {
    "npformer/.": 1_500,  # an error that only the first rank tells
    "npformer/backend": 22_000,
    "npformer/check": 126_000,  # slopes of forwards that answer in steps; failing backwards; interop's adapters (4,000)
    "npformer/cli": 25_400,  # judge, tolerance; derive; explain adam, step, sizes, --step; --predict; --processes
    "npformer/data": 15_800,
    "npformer/decoding": 6_600,
    "npformer/engine": 67_650,  # full memory, one limit, a GPU tried; biases by norms; a token as one; slots, MPI, NCCL
    "npformer/explain": 35_500,  # a step made again, its causes and time; sizes; terms for the page; lessons' questions
    "npformer/functional": 18_100,  # reads the formulas of its docstrings, which explain did
    "npformer/interop": 1_300,
    "npformer/io": 5_400,  # bounds on a process, and slopes seen in it, which lab had
    "npformer/lab": 29_000,  # the lines of an answer beside the truth; what a lesson asks
    "npformer/layers": 18_300,  # gradients that an engine adds within a product; caches that it moves
    "npformer/models": 7_300,
    "npformer/optim": 2_500,  # sums in a fixed tree, and Adam on a part of the arena, for ranks
    "npformer/pages": 13_000,  # notebooks; the factors of every number; a page below 8 MB, and what it keeps; the tour
    "npformer/plotting": 8_900,
    "npformer/run": 15_200,  # sinks, tokenizers in models' files; read_trained came from training
    "npformer/tracing": 15_200,
    "npformer/training": 20_600,  # --from, runs in Python, callbacks; several processes: who writes, what they agree on
    "tests/.": 26_000,  # what is published, what refuses a release; pages of docs; Chromium, which benchmarks had
    "tests/backend": 23_500,
    "tests/benchmarks": 21_000,  # that those programs are what they are said to be; the museum's maker
    "tests/check": 90_500,  # those kinds, and interop's adapters (6,000)
    "tests/cli": 36_300,  # each GPU by doctor; mistakes around --from; an emulated GPU; what tells answers; ranks
    "tests/data": 17_800,
    "tests/decoding": 9_600,
    "tests/docs": 8_500,  # a build; the start page, and a walk from it; exercises judged in a page, and its use
    "tests/engine": 89_500,  # memory that is full anywhere; an interrupt at any line of the pool; ranks; stand-ins
    "tests/examples": 5_300,  # mistakes that people make, for the check on one page; the notebook, run by a kernel
    "tests/explain": 15_200,  # 50 steps that add up; causes; sizes; every number as products; words; odd answers
    "tests/faults": 7_600,  # what injects faults, which benchmarks had
    "tests/functional": 21_950,  # every operation beside PyTorch's, which benchmarks had
    "tests/interop": 7_100,
    "tests/io": 4_700,
    "tests/lab": 13_300,  # what training tells by several seeds; what a lesson asks; inputs not called right
    "tests/layers": 14_200,
    "tests/models": 12_000,
    "tests/optim": 2_700,
    "tests/pages": 16_650,  # notebooks, hostile texts, a browser; manners; contrast; bytes; the tour; its times
    "tests/plotting": 10_900,
    "tests/run": 19_200,  # sinks, with TensorBoard's own reader; tokenizers in files
    "tests/tracing": 12_500,
    "tests/training": 32_000,  # lines and callbacks, patience, the time left by a simulated clock; ranks, as they begin
    "benchmarks": 46_500,  # the corpus; the harness and its questions; the maker of the museum's store
}


def tokens(text):
    """How many code tokens a Python file has."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    described = [node.body[0] for node in ast.walk(ast.parse(text)) if isinstance(node, owners) and node.body]
    docstrings = {
        (first.lineno, first.col_offset)
        for first in described
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    }
    return sum(
        token.type not in NO_CODE and not (token.type == tokenize.STRING and token.start in docstrings)
        for token in whole_strings(tokenize.generate_tokens(io.StringIO(text).readline))
    )


def whole_strings(parts):
    """The tokens, of each f-string its first alone: from Python 3.12 on it has several."""
    first, last = getattr(tokenize, "FSTRING_START", None), getattr(tokenize, "FSTRING_END", None)
    inside = 0
    for token in parts:
        if not inside:
            yield token
        inside += (token.type == first) - (token.type == last)


def rooms():
    """Room -> the code tokens in it: folders of the package and of the tests, and the benchmarks."""
    sizes = {}
    for top, deep in (("npformer", 2), ("tests", 2), ("benchmarks", 1)):
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).parts[:deep]
            room = "/".join(parts if not parts[-1].endswith(".py") else (*parts[:-1], "."))
            sizes[room] = sizes.get(room, 0) + tokens(path.read_text(encoding="utf-8"))
    return sizes


def test_what_counts_as_code():
    text = '"""Words."""\nx = 1  # a comment\n\n\ndef f():\n    """More words."""\n    return "no docstring"\n'
    assert tokens(text) == len(["x", "=", "1", "def", "f", "(", ")", ":", "return", "''"])
    assert tokens("""y = f"a {f'{x}' + '-'} b" + f''""") == len(["y", "=", "f", "+", "f"])


def test_no_room_is_above_its_ceiling():
    sizes = rooms()
    assert sizes.keys() == CEILINGS.keys(), "each room has a ceiling"
    above = {room: f"{size:,} of {CEILINGS[room]:,}" for room, size in sizes.items() if size > CEILINGS[room]}
    assert above == {}, "an addition replaces something, or raises the ceiling with its reason"
