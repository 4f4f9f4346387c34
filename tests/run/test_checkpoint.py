"""A checkpoint loads exactly, or says why not and where to go from there."""

import math
import os
import shutil

import numpy as np
import pytest

from npformer.errors import CheckpointError
from npformer.io import atomic_files
from npformer.run.checkpoint import (
    ARRAYS,
    STATE,
    best_checkpoint,
    latest_checkpoint,
    list_checkpoints,
    load_checkpoint,
    prune,
)
from tests.run import runs
from tests.run.runs import names, save

DTYPES = ["bool", "int8", "int32", "int64", "uint64", "float16", "float32", "float64"]


def make(dtype, shape):
    """Random bits of that type: every nan, infinity and minus zero may occur."""
    count = math.prod(shape) * np.dtype(dtype).itemsize
    data = np.random.default_rng(0).integers(0, 256, count, dtype=np.uint8)
    return (data % 2 if dtype == "bool" else data).view(dtype).reshape(shape)


def same(a, b):
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3, 4)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_come_back_bit_for_bit(tmp_path, dtype, shape):
    array = make(dtype, shape)
    arrays = {
        "plain": array,
        "transposed": array.T,
        "reversed": array[..., ::-1] if shape else array,
        "fortran": np.asfortranarray(array),
        "big endian": array.astype(array.dtype.newbyteorder(">")),
    }
    loaded = load_checkpoint(save(tmp_path, 1, arrays)).arrays
    assert sorted(loaded) == sorted(arrays)
    for name, back in loaded.items():
        native = arrays[name].astype(array.dtype)
        assert same(back, native), name
        assert back.dtype.isnative
        assert back.flags.writeable
        assert back.flags.c_contiguous


def test_everything_else_comes_back(tmp_path):
    state = {
        "rng": {"state": 2**127 + 1},
        "betas": [0.9, 0.98],
        "best": -math.inf,
        "none": None,
        "text": "ü\n",
    }
    path = save(tmp_path / "made" / "too", 500, {}, state=state, score=0.25)
    assert path == tmp_path / "made" / "too" / "step-00000500"
    assert sorted(os.listdir(path)) == [ARRAYS, STATE]
    back = load_checkpoint(path)
    assert (back.step, back.state, back.score, back.arrays, back.path) == (500, state, 0.25, {}, path)
    back = load_checkpoint(save(tmp_path, 1, {}, state={"x": math.nan}))
    assert math.isnan(back.state["x"])
    assert back.score is None


def test_what_would_not_come_back_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match=r"checkpoint\.state\.a\[1\]: expected None, bool.*got set"):
        save(tmp_path, 1, {}, state={"a": [1, {2}]})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("file", [ARRAYS, STATE])
def test_any_truncation_is_noticed(tmp_path, file):
    save(tmp_path)
    path = save(tmp_path, 2, state={"a": 1e-05}, score=0.5)
    data = (path / file).read_bytes()
    for length in range(len(data)):
        (path / file).write_bytes(data[:length])
        with pytest.raises(CheckpointError, match=rf"step-00000002/{file}: trunc.*Load step-00000001 in the same"):
            load_checkpoint(path)
    (path / file).write_bytes(data + b"\n")
    with pytest.raises(CheckpointError, match=file):
        load_checkpoint(path)
    (path / file).write_bytes(data)
    load_checkpoint(path)


@pytest.mark.parametrize("file", [ARRAYS, STATE])
def test_any_flipped_bit_is_noticed(tmp_path, file):
    path = save(tmp_path, 2, {**runs.ARRAYS, "é": np.ones(2) * 2}, state={"a": [1e-05, True, "é"]}, score=math.inf)
    data = (path / file).read_bytes()
    places = [(position, position % 8) for position in range(len(data))]
    places += [(position, bit) for bit in (0, 5) for position in range(0, len(data), 3)]  # 5: upper or lower case
    for position, bit in places:
        flipped = bytearray(data)
        flipped[position] ^= 1 << bit
        (path / file).write_bytes(flipped)
        with pytest.raises(CheckpointError, match=rf"{file}: .*no other sound checkpoint"):
            load_checkpoint(path)


@pytest.mark.parametrize("file", [ARRAYS, STATE])
def test_files_of_two_checkpoints_do_not_mix(tmp_path, file):
    one = save(tmp_path)
    two = save(tmp_path, 2, {"w": runs.ARRAYS["w"] + 1})
    shutil.copy(one / file, two / file)
    with pytest.raises(CheckpointError, match="step-00000002"):
        load_checkpoint(two)


def test_missing_parts_are_named(tmp_path):
    for file in (ARRAYS, STATE):
        path = save(tmp_path)
        (path / file).unlink()
        with pytest.raises(CheckpointError, match=rf"{file}: expected a checkpoint's {file}, found nothing"):
            load_checkpoint(path)
        assert names(tmp_path) == []
    with pytest.raises(CheckpointError, match=r"step-00000007: expected a checkpoint's step-00000007, found nothing"):
        load_checkpoint(tmp_path / "step-00000007")
    with pytest.raises(CheckpointError, match="found nothing"):
        load_checkpoint(tmp_path / "no" / "step-00000007")
    (tmp_path / "file").touch()
    with pytest.raises(CheckpointError, match="expected"):
        load_checkpoint(tmp_path / "file")


def test_another_format_is_told_apart_from_damage(tmp_path):
    path = save(tmp_path)
    document = atomic_files.unseal((path / STATE).read_bytes())
    (path / STATE).write_bytes(atomic_files.seal({**document, "format": 99}))
    with pytest.raises(CheckpointError, match=rf"{STATE}: expected checkpoint format 1, found 99: use the version"):
        load_checkpoint(path)
    (path / STATE).write_bytes(atomic_files.seal({**document, "step": 9}))
    with pytest.raises(CheckpointError, match="expected step 1 by its name, found 9"):
        load_checkpoint(path)


def test_the_way_out_is_a_sound_checkpoint(tmp_path):
    paths = [save(tmp_path, step) for step in (1, 2, 3, 4, 10**8)]
    (paths[2] / ARRAYS).write_bytes(b"")
    for path, sound in [(paths[2], 2), (paths[4], 4)]:
        (path / ARRAYS).write_bytes(b"")
        with pytest.raises(CheckpointError, match=rf"Load step-{sound:08d} in"):
            load_checkpoint(path)


def test_order_latest_and_best(tmp_path):
    assert list_checkpoints(tmp_path / "absent") == []
    assert latest_checkpoint(tmp_path) is None
    assert best_checkpoint(tmp_path) is None
    scores = {5: None, 100_000_000: 0.1, 99_999_999: 0.7, 20: 0.7, 30: math.nan, 40: -math.inf}
    for step, score in scores.items():
        save(tmp_path, step, {}, score=score)
    for other in ("step-1", "step-00000001x", ".tmp-x", "step-00000002"):
        (tmp_path / other).mkdir()
    assert [load_checkpoint(path).step for path in list_checkpoints(tmp_path)] == sorted(scores)
    assert latest_checkpoint(tmp_path).name == "step-100000000"
    assert best_checkpoint(tmp_path).name == "step-99999999"


def test_prune_keeps_the_last_the_best_and_the_unreadable(tmp_path):
    for step, score in [(1, 0.1), (2, 0.9), (3, 0.2), (4, 0.3), (5, None), (6, 0.5)]:
        save(tmp_path, step, {}, score=score)
    (tmp_path / "step-00000004" / STATE).write_bytes(b"")
    prune(tmp_path, 2)
    assert names(tmp_path) == [f"step-0000000{step}" for step in (2, 4, 5, 6)]
    prune(tmp_path, 10)
    assert len(names(tmp_path)) == 4
    assert not list(tmp_path.glob(".tmp-*"))


def test_a_replacement_that_was_interrupted_counts(tmp_path):
    path = save(tmp_path, 7, state={"turn": 1})
    path.rename(tmp_path / "kept")
    save(tmp_path, 7, state={"turn": 2}).rename(tmp_path / "step-00000007.new")
    (tmp_path / "kept").rename(path)
    assert load_checkpoint(latest_checkpoint(tmp_path)).state == {"turn": 2}
    save(tmp_path, 8)
    assert sorted(os.listdir(tmp_path)) == ["step-00000007", "step-00000008"]
    assert load_checkpoint(path).state == {"turn": 2}
