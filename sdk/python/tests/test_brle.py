import random

from inferlet import brle


def test_allow_writes_runs_from_false():
    assert brle.allow([3, 4, 9]) == [3, 2, 4, 1]
    assert brle.allow([0, 1]) == [0, 2]
    assert brle.allow([5, 5, 4]) == [4, 2]


def test_ids_undoes_allow():
    assert brle.ids(brle.allow([0, 7, 8, 30])) == [0, 7, 8, 30]
    assert brle.ids([]) == []


def test_nothing_in_common_is_not_the_empty_mask():
    mask = brle.intersect(brle.allow([1]), brle.allow([2]))
    assert mask  # the empty list would allow everything
    assert brle.ids(mask) == []


def test_intersect_agrees_with_sets():
    draw = random.Random(7)
    for _ in range(300):
        a = {draw.randrange(20) for _ in range(draw.randrange(1, 12))}
        b = {draw.randrange(20) for _ in range(draw.randrange(1, 12))}
        assert brle.ids(brle.intersect(brle.allow(a), brle.allow(b))) == sorted(a & b)


def test_intersect_takes_runs_of_zero():
    assert brle.ids(brle.intersect([0, 4, 0, 2], [1, 0, 2, 9])) == [3, 4, 5]
