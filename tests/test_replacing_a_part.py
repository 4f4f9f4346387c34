"""docs/replacing-a-part.md: its blocks run in order, and what it says of parts of one's own is so."""

import numpy as np
import pytest

import npformer as npf
from npformer.errors import CheckpointError
from tests.markdown import blocks, names_after, text_of

PAGE = "docs/replacing-a-part.md"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The names that are there after all blocks have run, in a folder of their own."""
    folder = tmp_path_factory.mktemp("page")
    names = names_after(PAGE, folder)
    assert not (folder / "model.safetensors").exists()
    return names


def test_the_page_makes_checks_trains_saves_and_loads(page):
    assert len(blocks("python", text_of(PAGE))) == 9
    assert page["right"] > 0.95
    assert len(page["answers"]) == 100


def test_decoding_step_by_step_is_the_forward_with_foreign_parts(page):
    model, src, tgt_in = page["build"]("float64"), page["src"], page["tgt_in"]
    state = model.start(src, tgt_in.shape[1])
    stepped = np.stack([model.step(tokens, state) for tokens in tgt_in.T], axis=1)
    np.testing.assert_allclose(stepped, model(src, tgt_in), rtol=1e-9, atol=1e-12)


def test_other_arrays_are_refused_and_nothing_is_changed(page):
    model = page["build"]()
    before = model.arena.values.copy()
    arrays = page["model_arrays"](model)
    arrays.pop("encoder.layers.0.norm1.gamma")
    with pytest.raises(CheckpointError, match=r"encoder\.layers\.0\.norm1\.gamma is missing"):
        page["set_arrays"](model, arrays, "FILE")
    assert np.array_equal(model.arena.values, before)


def test_a_feed_forward_with_npformers_arrays_is_not_saved_as_npformers(page, tmp_path):
    model = npf.Transformer(page["CONFIG"], backend=npf.get_backend("numpy", dtype="float32"), seed=0)
    layer = model.encoder.layers[0]
    layer.feed_forward = page["SquaredReluFeedForward"](32, 64, backend=model.backend)
    text = r"encoder\.layers\.0\.feed_forward: expected FeedForward, got SquaredReluFeedForward"
    with pytest.raises(CheckpointError, match=text):
        npf.save(model, tmp_path / "model")
    assert text.replace("\\", "").partition("0.")[2] in " ".join(text_of(PAGE).split())
    assert list(tmp_path.iterdir()) == []
