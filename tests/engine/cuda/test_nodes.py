"""The number of nodes in a step's graph, of training or decoding: each takes the GPU a microsecond or two, at least."""

import dataclasses

import pytest

import npformer as npf
from npformer.backend.select import cupy_backend
from npformer.decoding import greedy
from npformer.engine.cupy.graph_driver import CupyDriver
from npformer.models.presets import PRESETS
from tests.engine.cupy import emulated

#: Size of model: nodes of the graph of a step with dropout, products in TF32; matrix products among them, and of these
#: those that add a bias, which takes longer: of the maps that no norm comes after.
NODES = {"tiny": (133, 69, 9), "mid": (260, 156, 13), "base": (496, 309, 25)}
#: Sizes with fewer sequences, and tokens to choose from, that are as many nodes: it is rows beyond 1024 that count.
SMALLER = {"mid": {"batch": 20, "vocab_size": 99}, "base": {"batch": 12, "vocab_size": 99}}


@pytest.fixture
def counted(runtimes, monkeypatch):
    """counted(preset): (nodes, products, those with a bias) of a recorded step, none of which is computed."""
    emulated.uncomputed(monkeypatch)

    def count(preset, **changes):
        backend = cupy_backend("float32", precision="tf32")
        model = npf.Transformer(dataclasses.replace(preset.config(0.1), **changes), backend=backend, seed=0)
        step = npf.TrainStep(model, npf.Adam(model.arena, lr=1e-4), seed=0)
        for _ in range(2):
            step(*preset.example_batch())
        assert step.runner.compute.refusal is None
        (shape,) = step.runner.compute._shapes.values()
        names = [node.__name__ for node in shape.graph.nodes]
        return len(names), sum(name.startswith("cublas") for name in names), names.count("cublasLtMatmul")

    return count


@pytest.mark.parametrize("size", NODES)
def test_a_step_is_no_more_nodes_than_it_was(size, counted):
    """Where it is fewer, write that down: they should not come back."""
    assert counted(dataclasses.replace(PRESETS[size], **SMALLER.get(size, {}))) == NODES[size]


def test_in_pre_ln_no_norm_comes_after_a_layers_last_map(counted):
    """Of base's 55 maps 12 are that; the others before a norm are 6 of its encoder and 12 of its decoder."""
    base = dataclasses.replace(PRESETS["base"], **SMALLER["base"])
    assert counted(base, norm_order="pre")[2] == 55 - 6 - 12


#: Size of model: nodes of the graph of a token, of a single text and of several. cuBLASLt adds no bias to one row.
OF_A_TOKEN = {"tiny": (42, 31), "mid": (60, 44)}


@pytest.mark.parametrize("size", OF_A_TOKEN)
def test_a_token_is_no_more_nodes_than_it_was(size, runtimes, monkeypatch):
    """Of at most 64 positions: then a head's attention is one kernel."""
    machine, launched, launch = emulated.installed(monkeypatch).machine, [], CupyDriver.launch
    machine.soil = lambda buffer: None
    monkeypatch.setattr(CupyDriver, "launch", lambda self, graph: (launched.append(graph), launch(self, graph)))
    preset, found = PRESETS[size], []
    model = npf.Transformer(preset.config(0.0), backend=cupy_backend("float32", precision="tf32"), seed=0)
    for rows in (1, 2):
        greedy(model, preset.example_batch()[0][:rows], 3, eos_id=None)
        found.append(len(launched[-1].nodes))
    assert tuple(found) == OF_A_TOKEN[size]
