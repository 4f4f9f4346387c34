"""Other sizes of the inputs: which axes grow together, which by themselves, and what the new numbers are."""

import numpy as np

from npformer.check.regimes import Size, elements, resized, sizes_of

Q, K = np.arange(10.0).reshape(5, 2), np.arange(10.0, 20.0).reshape(5, 2)
MASK = np.eye(5, dtype=bool)


def named(arrays, fits, edges=(1, 32)):
    """Names of all sizes."""
    return [size.name for size in sizes_of(arrays, edges, fits)]


def test_axes_of_one_length_grow_together():
    sizes = list(sizes_of({"q": Q, "k": K}, (1, 32), lambda size: False))
    assert [(size.name, size.axes, size.length) for size in sizes] == [
        ("q.shape[0] = 1", (("q", 0), ("k", 0)), 1),
        ("q.shape[0] = 32", (("q", 0), ("k", 0)), 32),
        ("q.shape[1] = 1", (("q", 1), ("k", 1)), 1),
        ("q.shape[1] = 32", (("q", 1), ("k", 1)), 32),
    ]


def test_an_axis_grows_by_itself_if_forward_lets_it():
    def fits(size):
        return size.axes in ((("q", 0),), (("k", 0),))

    assert [name for name in named({"q": Q, "k": K}, fits, ()) if "rest" in name] == [
        "q.shape[0] = 8, the rest 5",
        "q.shape[0] = 3, the rest 5",
        "k.shape[0] = 8, the rest 5",
        "k.shape[0] = 3, the rest 5",
    ]


def test_two_axes_grow_if_none_may_alone():
    """Queries and their axis of a mask (S, T)."""

    def fits(size):
        return size.axes in ((("q", 0), ("mask", 0)), (("k", 0), ("mask", 1)))

    found = named({"q": Q, "k": K, "mask": MASK}, fits, ())
    assert found[0] == "q.shape[0], mask.shape[0] = 8, the rest 5"
    assert len(found) == 4


def test_no_axis_shrinks_to_one_by_itself_since_it_would_be_broadcast():
    x = np.ones((3, 3))
    assert not any("= 1, the rest" in name for name in named({"x": x}, lambda size: True, ()))


def test_what_is_there_stays_and_the_rest_is_drawn_from_it():
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    there = resized({"x": x}, Size("", (("x", 1),), 40), np.random.default_rng(0))["x"]
    assert there.shape == (2, 40)
    assert (there[:, :2] == x).all()
    assert there.min() > 0.8 * 1, "positive numbers stay positive"
    assert there.max() < 1.2 * 4
    assert len(set(there.ravel())) == there.size, "no ties"


def test_ids_and_masks_go_on():
    arrays = {"ids": np.array([1, 2, 0]), "mask": np.array([True, False, True]), "x": np.ones(2, "f4")}
    there = resized(arrays, Size("", (("ids", 0), ("mask", 0)), 5), np.random.default_rng(0))
    assert there["ids"].tolist() == [1, 2, 0, 1, 2]
    assert there["mask"].tolist() == [True, False, True, True, False]
    assert there["x"] is arrays["x"]
    assert resized(arrays, Size("", (("x", 0),), 9), np.random.default_rng(0))["x"].dtype == np.float32


def test_elements():
    assert elements({"x": np.ones((2, 3)), "y": np.ones(3)}, Size("", (("x", 1), ("y", 0)), 100)) == 300
