"""Exchanges of one process with itself, and of what JSON knows between several ranks."""

import numpy as np

from npformer.engine.communicator import Communicator
from tests.engine.thread_ranks import in_threads


def test_one_process_has_everything():
    one, whole = np.array([1.0, 2.0]), np.zeros(2)
    alone = Communicator()
    assert (alone.rank, alone.size) == (0, 1)
    alone.all_to_all([one], [whole]).wait()
    assert whole.tolist() == [1, 2]
    alone.all_gather(one[:1], [whole[1:]]).wait()
    assert whole.tolist() == [1, 1]
    alone.all_gather(one, [one]).wait()


def test_what_json_knows_arrives_at_all():
    own = {0: [0.1, "é", None], 1: {}, 2: "a longer one"}
    assert in_threads(3, lambda ranks: ranks.gather_json(own[ranks.rank])) == [[*own.values()]] * 3
    assert Communicator().gather_json([1]) == [[1]]
