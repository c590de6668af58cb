"""Table 2 of RkNN compares like with like."""

import numpy as np

from benchmarks.neighbor_rknn import WAYS, Choice, _vote


def test_both_are_chosen_in_the_same_way() -> None:
    """A vote of a hundred pairs had been held against one k."""
    for place in WAYS.values():
        ours, theirs = Choice._fields[place : place + 2]
        assert ours.removeprefix("rknn_") == theirs.removeprefix("knn_")


def test_a_vote_is_of_the_best_by_what_was_seen() -> None:
    """Of 8 candidates the best 2 vote, and a tie is for label 1, as in one vote of neighbours."""
    shares = np.array([[0.9, 0.1, 0.1, 0.1], [0.9, 0.9, 0.1, 0.1], [0.1, 0.1, 0.9, 0.9]])
    middles = np.array([0.5, 2.0])
    seen = np.zeros((4, 2))
    seen[:2, 0] = 1.0
    assert _vote(shares, middles, seen, np.array([1, 1, 0])) == 1.0
    assert _vote(shares, middles, seen, np.array([0, 0, 1])) == 0.0
