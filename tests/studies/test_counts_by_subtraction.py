"""No small count follows from differences of published counts."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steropes.studies.disclosure import (
    Bound,
    apart,
    falling,
    fraction,
    part,
    total,
)

SMALL = range(1, 5)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=7), st.integers(1, 8))
def test_no_difference_of_published_counts_is_small(drops, least):
    counts = np.cumsum(drops)[::-1].tolist()
    published = apart(counts, least)
    exact = [n for n in published if isinstance(n, int)]
    for i, n in enumerate(exact):
        assert not 0 < n < least
        assert not any(0 < n - later < least for later in exact[i:])
    for n, cell in zip(counts, published, strict=True):
        if isinstance(cell, Bound):
            assert n < cell.limit


@given(st.lists(st.integers(0, 40), min_size=2, max_size=7), st.integers(1, 8))
def test_no_difference_to_a_count_that_is_known_is_small(drops, least):
    first, *counts = np.cumsum(drops)[::-1].tolist()
    published = falling(first, counts, least)
    exact = [first, *(n for n in published if isinstance(n, int))]
    for i, n in enumerate(exact):
        assert i == 0 or not 0 < n < least
        assert not any(0 < n - later < least for later in exact[i:])
    for n, cell in zip(counts, published, strict=True):
        if isinstance(cell, Bound):
            assert n < cell.limit


@given(st.lists(st.tuples(st.integers(0, 40), st.booleans()), min_size=2, max_size=9),
       st.integers(1, 8))  # fmt: skip
def test_no_difference_to_a_count_of_the_series_told_elsewhere_is_small(drops, least):
    counts = np.cumsum([n for n, _ in drops])[::-1].tolist()
    first = counts[0]
    there = falling(first, [n for n, (_, t) in zip(counts, drops, strict=True) if t], least)
    rest = [n for n, (_, t) in zip(counts, drops, strict=True) if not t]
    here = falling(first, rest, least)
    exact = sorted({first, *(n for n in [*there, *here] if isinstance(n, int))})
    assert not any(0 < b - a < least for a, b in itertools.pairwise(exact) if a or b != first)
    for n, cell in zip(rest, here, strict=True):
        if isinstance(cell, Bound):
            assert n < cell.limit


@given(st.integers(0, 50), st.integers(0, 50))
def test_neither_part_of_the_people_is_small(n, rest):
    cell = part(n, n + rest, 5)
    if isinstance(cell, Bound):
        assert n in SMALL or rest in SMALL
        assert n < cell.limit
    else:
        assert n not in SMALL
        assert rest not in SMALL


@pytest.mark.parametrize("of", [1, 2, 3, 4])
def test_few_people_are_not_told_by_the_bound_on_some_of_them(of):
    assert {str(part(n, of, 5)) for n in range(of + 1)} == {"<5"}
    assert all(np.isnan(fraction(n, of, 5)) for n in range(of + 1))


def test_a_total_hides_what_its_parts_hide():
    assert total([30, 12]) == 42
    assert str(total([30, Bound(5)])) == "<35"
    assert str(total([Bound(5), Bound(5)])) == "<9"


def test_shares_are_rounded_to_five_people():
    assert [fraction(n, 100, 5) for n in (0, 5, 7, 8, 100)] == [0.0, 0.05, 0.05, 0.1, 1.0]
    assert [fraction(n, 100, 5).percent() for n in (4, 97)] == ["<5.0%", ">95.0%"]
    assert fraction(7, 100, 1) == 0.07
