"""What arrives where: exchanges of one process, and of several ranks in threads."""

import numpy as np

from npformer.engine.communicator import Communicator
from tests.engine.thread_ranks import in_threads


def parts(rank, lengths):
    """What a rank sends to each of them: 100·rank + 10·receiver + place."""
    return [100.0 * rank + 10 * q + np.arange(n) for q, n in enumerate(lengths)]


def test_all_to_all_brings_each_part_to_its_rank():
    lengths = [3, 0, 1, 2]
    size = len(lengths)

    def work(ranks):
        receive = [np.full(lengths[ranks.rank], np.nan) for _ in range(size)]
        ranks.all_to_all(parts(ranks.rank, lengths), receive).wait()
        return receive

    for rank, received in enumerate(in_threads(size, work)):
        for sender, arrived in enumerate(received):
            assert arrived.tolist() == [100.0 * sender + 10 * rank + i for i in range(lengths[rank])]


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
