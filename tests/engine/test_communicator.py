"""What arrives where: exchanges of one process, and of several ranks in threads."""

import numpy as np
import pytest

from npformer.engine.communicator import Communicator
from npformer.errors import RankLostError
from tests.engine.thread_ranks import in_threads


def parts(rank, lengths):
    """What a rank sends to each of them: 100·rank + 10·receiver + place."""
    return [100.0 * rank + 10 * q + np.arange(n) for q, n in enumerate(lengths)]


@pytest.mark.parametrize("size", [2, 4])
def test_all_to_all_brings_each_part_to_its_rank(size):
    lengths = [3, 0, 1, 2][:size]

    def work(ranks):
        receive = [np.full(lengths[ranks.rank], np.nan) for _ in range(size)]
        ranks.all_to_all(parts(ranks.rank, lengths), receive).wait()
        return receive

    for rank, received in enumerate(in_threads(size, work)):
        for sender, arrived in enumerate(received):
            assert arrived.tolist() == [100.0 * sender + 10 * rank + i for i in range(lengths[rank])]


def test_all_gather_brings_what_each_sends_to_all():
    def work(ranks):
        whole = np.full(6, np.nan)
        views = [whole[:1], whole[1:3], whole[3:3], whole[3:]]
        views[ranks.rank][...] = ranks.rank
        ranks.all_gather(views[ranks.rank], views).wait()
        return whole.tolist()

    assert in_threads(4, work) == [[0, 1, 1, 3, 3, 3]] * 4


def test_broadcast_brings_what_one_has():
    def work(ranks):
        array = np.full(2, float(ranks.rank))
        ranks.broadcast(array, root=1).wait()
        ranks.barrier().wait()
        return array.tolist()

    assert in_threads(3, work) == [[1.0, 1.0]] * 3


def test_what_was_sent_may_be_overwritten_once_its_request_has_ended():
    def work(ranks):
        send, whole = np.zeros(1), np.empty(2)
        seen = []
        for i in range(50):
            send[0] = i
            ranks.all_gather(send, [whole[:1], whole[1:]]).wait()
            send[0] = -1
            seen.append(whole.tolist())
        return seen

    assert in_threads(2, work) == [[[float(i)] * 2 for i in range(50)]] * 2


def test_several_exchanges_proceed_at_the_same_time():
    def work(ranks):
        first, second = np.empty(2), np.empty(2)
        one = ranks.all_gather(np.full(1, 1.0 + ranks.rank), [first[:1], first[1:]])
        two = ranks.all_gather(np.full(1, 5.0 + ranks.rank), [second[:1], second[1:]])
        two.wait()
        one.wait()
        return [*first, *second]

    assert in_threads(2, work) == [[1, 2, 5, 6]] * 2


def test_a_request_does_not_wait():
    def work(ranks):
        if ranks.rank == 1:
            return None
        request = ranks.barrier()
        assert not request.test()
        return request.test()

    assert in_threads(2, work) == [False, None]


def test_one_process_has_everything():
    one, whole = np.array([1.0, 2.0]), np.zeros(2)
    alone = Communicator()
    assert (alone.rank, alone.size) == (0, 1)
    alone.all_to_all([one], [whole]).wait()
    assert whole.tolist() == [1, 2]
    alone.all_gather(one[:1], [whole[1:]]).wait()
    assert whole.tolist() == [1, 1]
    for request in (alone.all_gather(one, [one]), alone.broadcast(one), alone.barrier()):
        request.wait()


def test_a_rank_that_fails_ends_the_others_and_its_error_is_raised():
    ends = []

    def work(ranks):
        if ranks.rank == 2:
            raise OSError("no room")
        try:
            ranks.barrier().wait()
        except RankLostError as error:
            ends.append(str(error))
            raise

    with pytest.raises(OSError, match="no room"):
        in_threads(4, work)
    assert ends == ["rank 2 of 4: expected to train on, got OSError: no room"] * 3


def test_ranks_that_call_differently_are_told():
    def other_calls(ranks):
        (ranks.barrier() if ranks.rank else ranks.broadcast(np.zeros(1))).wait()

    with pytest.raises(ValueError, match=r"call 0: expected arrays {0: \(1,\)} by rank, got room {0: \(0,\)}"):
        in_threads(2, other_calls)

    def other_lengths(ranks):
        ranks.all_gather(np.zeros(1), [np.zeros(1 + (q != ranks.rank)) for q in range(2)]).wait()

    with pytest.raises(ValueError, match=r"call 0: expected arrays {.: \(1,\)} by rank, got room {.: \(2,\)}"):
        in_threads(2, other_lengths)


def test_what_json_knows_arrives_at_all():
    own = {0: [0.1, "é", None], 1: {}, 2: "a longer one"}
    assert in_threads(3, lambda ranks: ranks.gather_json(own[ranks.rank])) == [[*own.values()]] * 3
    assert Communicator().gather_json([1]) == [[1]]
