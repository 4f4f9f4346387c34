"""The formulas of an operation's docstring, and which of them a line of code computes.

A formula belongs to a line if the line sets its left side. Letters of the formulas and names of the code are matched by
a table: γ is gamma, x̂ is x_hat. Parts of formulas that have a name of their own in the code are listed with it.
"""

from __future__ import annotations

import re

#: Letters of formulas -> names in code.
_LETTERS = {"γ": "gamma", "β": "beta", "x̂": "x_hat", "μ": "mean", "σ²": "variance", "δ": "delta"}
#: Of these, those that the code has a name for.
CODED = {"gamma", "beta", "x_hat"}
#: Names in code -> the left side in the docstring, where the letters differ.
_NAMES = {
    "dweight": "dW",
    "dbias": "db",
    "dtable": "dtable_v",
    "dlogits": "dz",
    "dw1": "dW₁",
}
#: What has a name in the code and none in the formulas: function -> name -> the part of the docstring.
PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "layer_norm_forward": {"centred": ("x − μ",), "r": ("r = 1/√(σ² + ε)",), "y": ("y = γ·x̂ + β",)},
    "layer_norm_backward": {
        "g": ("g = γ·dy",),
        "along_one": ("mean_C g",),
        "along_x_hat": ("mean_C(g·x̂)",),
    },
    "attention_forward": {"out": ("out     = Drop(weights) V",)},
    "_weights": {"scores": ("scores  = Q Kᵀ/√D",)},
    "attention_backward": {
        "dropped": ("Drop(weights)",),
        "dweights": ("ddropped = dout Vᵀ", "dweights = ddropped·keep·s"),
    },
    "softmax_forward": {
        "top": ("top = max over the visible entries",),
        "powers": ("exp(x_j − top)",),
        "total": ("Σ_k exp(x_k − top)",),
        "y": ("y_j = exp(x_j − top)/Σ_k exp(x_k − top)",),
    },
    "softmax_backward": {"shared": ("Σ_j dy_j y_j",), "dx": ("y_i·(dy_i − Σ_j dy_j y_j)",)},
    "cross_entropy_backward": {"dlogits": ("dz_nv = dloss/N·(p_nv − q_nv)",)},
    "batch_norm_backward": {},
}


def split_docstring(doc: str) -> tuple[str, str, str, str]:
    """(title, formula, derivation, source) of a file of ``functional``."""
    body, _, source = doc.partition("\nSource:")
    title, _, rest = body.partition("\n\n")
    match = re.search(r"\bBackward\b", rest)
    place = match.start() if match else len(rest)
    return (
        " ".join(title.split()),
        rest[:place].strip("\n").rstrip(),
        rest[place:].strip("\n"),
        " ".join(source.split()),
    )


def formulas_of(function: str, doc: str, names: list[str]) -> tuple[str, ...]:
    """The formulas of a docstring that compute one of these names, in a line of this function."""
    listed = PARTS.get(function, {})
    found: list[str] = []
    for name in names:
        if name in listed:
            found += [text for text in listed[name] if _flat(text) in _flat(doc)]
            continue
        if not function.endswith(("_backward", "_forward")) and name == "returns":
            continue
        found += [right for left, right in formulas(doc) if _same(left, name)]
    return tuple(dict.fromkeys(found))


def letters_in(text: str) -> str:
    """The letters of a text with their names in code: "γ is gamma, x̂ is x_hat"."""
    return ", ".join(f"{letter} is {name}" for letter, name in _LETTERS.items() if letter in text and name in CODED)


def formulas(doc: str) -> list[tuple[str, str]]:
    """(left side, whole formula) of every formula of a docstring."""
    found = []
    for line in doc.splitlines():
        if line.startswith("    "):
            for part in re.split(r"\s{3,}", line.strip()):
                left, equals, _ = part.partition(" = ")
                if equals and re.fullmatch(r"[\ŵ²₁₂′']+", left.strip()):
                    found.append((left.strip(), " ".join(part.split())))
    return found


def _same(left: str, name: str) -> bool:
    """Whether the left side of a formula and a name of the code mean the same."""
    plain = left
    for letter, word in _LETTERS.items():
        plain = plain.replace(letter, word)
    plain = re.sub(r"_[a-z]{1,2}$", "", plain) if plain not in (name, "x_hat") else plain
    return plain == name or plain.lower() == name or left == _NAMES.get(name)


def _flat(text: str) -> str:
    return " ".join(text.split())
