"""Lists of the source come first, and rows that it does not have stay as they were drawn."""

import numpy as np
import pytest

from npformer.data import Characters, Example, ExampleTask, Vocabulary
from npformer.errors import CheckpointError
from npformer.models import EncoderConfig, build_model
from npformer.run.model_arrays import model_arrays
from npformer.run.start_from import WeightSource, extend
from npformer.run.trained import Trained

OLD = ["[PAD]", "[BOS]", "[EOS]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "z", "a"]


@pytest.fixture
def task():
    """A task of two classes; its own letters are a, b and c."""
    examples = [Example("ab", "fr"), Example("ca", "it")]
    tokenizer = Characters.learn("abc")
    return ExampleTask("small", "classify", tokenizer, examples, examples, seed=0, digest="", classes=("fr", "it"))


def test_a_task_gets_the_lists_of_the_source_and_its_own_after_them(task):
    said = extend(task, {"pieces": OLD, "classes": ["[PAD]", "de", "it"]})
    assert task.vocabulary.pieces == (*OLD, "b", "c")
    assert task.classes == ("[PAD]", "de", "it", "fr")
    assert said == (
        "; 2 pieces are new, and their rows are drawn anew: 'b', 'c'; 1 further pieces of the source are kept"
        "; 1 classes are new, and their rows are drawn anew: 'fr'; 1 further classes of the source are kept"
    )
    batch = task.collate(task.held_out())
    assert batch.tokens.tolist() == [[4, 8, 9], [4, 10, 8]]
    assert batch.targets.tolist() == [3, 2]


def test_what_is_known_is_said(task):
    base = {"pieces": [*task.vocabulary.pieces], "classes": [*task.classes]}
    assert extend(task, base) == "; all 10 pieces of the data are known; all 3 classes of the data are known"


@pytest.mark.parametrize(
    "odd", [3, {}, [], {"pieces": OLD}, {"pieces": OLD, "classes": [3]}, {"pieces": "ab", "classes": []}]
)
def test_other_lists_in_a_checkpoint_are_refused(task, odd):
    with pytest.raises(CheckpointError, match="expected the pieces and classes that the run started from"):
        extend(task, odd)


def test_the_rows_of_pieces_and_classes(numpy64):
    sizes = {"d_model": 4, "num_heads": 2, "d_ff": 4, "num_layers": 1}
    source, model, drawn = (
        build_model(EncoderConfig(count, head="sequence", num_classes=classes, **sizes), backend=numpy64, seed=seed)
        for count, classes, seed in ((9, 3, 1), (11, 4, 2), (11, 4, 2))
    )
    kept = Characters(Vocabulary(tuple(OLD)))
    WeightSource("runs/x", Trained(source, kept, ("[PAD]", "de", "it"), "classify")).set_weights(model)
    old, new, first = map(model_arrays, (source, model, drawn))
    assert {name for name in old if old[name].shape != new[name].shape} == {
        "embedding.weight", "head.weight", "head.bias",
    }  # fmt: skip
    assert np.array_equal(
        new["embedding.weight"], np.concatenate([old["embedding.weight"], first["embedding.weight"][9:]])
    )
    assert np.array_equal(new["head.weight"], np.hstack([old["head.weight"], first["head.weight"][:, 3:]]))
    others = set(old) - {"embedding.weight", "head.weight", "head.bias"}
    assert all(np.array_equal(new[name], old[name]) for name in others)
