"""What the tests of pages look at: a trace, recorded once, and a run."""

import pytest

from npformer.run import RunDirectory
from npformer.run.options import complete
from npformer.run.predictions import Piece, Predicted
from npformer.run.summary import RunSummary
from npformer.see.page.bugs import bug_traces
from npformer.see.record.models import showcase
from npformer.training import Evaluation


@pytest.fixture(scope="session")
def shown():
    """The showcase's trace."""
    return showcase()


@pytest.fixture(scope="session")
def bugs(shown):
    """The usual bugs in the showcase's trace."""
    return bug_traces(showcase, shown)


@pytest.fixture
def summary(tmp_path):
    """A run in plain values, half done, that was never trained."""
    options = complete(
        {"run": {"task": "reverse"}, "data": {}, "model": {}, "training": {"steps": 40, "log_every": 10}}, 29, 13
    )
    records = [
        {"step": 10, "kind": "train", "loss": 3.0, "learning_rate": 1e-3, "grad_norm": 2.0, "tokens_per_second": 100.0},
        {
            "step": 10, "kind": "gradient", "norm.encoder.layers.0.norm1": 0.01,
            "norm.encoder.layers.0.feed_forward": 1.0, "update.encoder.layers.0.norm1": 2e-3,
            "update.encoder.layers.0.feed_forward": 1e-3, "saturated.encoder.layers.0.self_attention": 0.25,
            "dead.encoder.layers.0.feed_forward": 0.125,
        },
        {"step": 10, "kind": "eval", "loss": 3.5, "token_accuracy": 0.25, "exact_match": 0.0, "examples": 4},
        {"step": 20, "kind": "train", "loss": 2.0, "learning_rate": 2e-3, "grad_norm": 1.0, "tokens_per_second": 300.0},
        {
            "step": 20, "kind": "gradient", "norm.encoder.layers.0.norm1": 0.1,
            "norm.encoder.layers.0.feed_forward": 0.0, "norm.generator": float("nan"),
        },
        {"step": 20, "kind": "eval", "loss": 2.5, "token_accuracy": 0.5, "exact_match": 0.25, "examples": 4},
    ]  # fmt: skip
    evaluation = Evaluation(2.5, 0.5, 0.25, 4, ("a", "b", "c", "d"))
    made = [Predicted("ab", (Piece("b", "b"), Piece("a", "x")), "")]
    run = RunDirectory(tmp_path / "reverse-007")
    return RunSummary(run, options, {"numpy": "2"}, records, 20, 1234, evaluation, made, None)
