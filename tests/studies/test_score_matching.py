"""Greedy matching: by hand, against brute force, and within its caliper."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from steropes.designs import Match, Stratify, Trim, covariate_balance
from steropes.designs.propensity import (
    match_pairs,
    match_scores,
    propensity_weights,
    score_strata,
    trim,
)
from steropes.errors import DataError


def brute_force(score, treated, width):
    """Take the closest pair that is left, ties by treated row, then comparator row."""
    matched = np.full(len(score), -1)
    t, c = (set(np.flatnonzero(np.array(treated) == arm)) for arm in (1, 0))
    pairs = []
    while t and c:
        d, i, j = min((abs(score[i] - score[j]), i, j) for i in t for j in c)
        if d > width:
            break
        pairs.append((i, j))
        t.remove(i)
        c.remove(j)
    for k, pair in enumerate(sorted(pairs)):
        matched[list(pair)] = k
    return matched


def test_the_closest_pair_goes_first():
    # 0.3 is nearer to 0.35 than to 0.0; the person at 0.0 then has nobody within 0.5
    score, treated = [0.0, 0.3, 0.35, 1.0], [1, 1, 0, 0]
    assert match_pairs(score, treated, 0.5).tolist() == [-1, 0, 0, -1]
    assert match_pairs(score, treated, 1.0).tolist() == [0, 1, 1, 0]


def test_the_caliper_is_inclusive():
    assert match_pairs([0.0, 0.25], [1, 0], 0.25).tolist() == [0, 0]
    assert match_pairs([0.0, 0.25], [1, 0], 0.2).tolist() == [-1, -1]


def test_ties_go_to_the_smaller_row():
    assert match_pairs([1.0, 1.0, 1.0], [0, 0, 1], 0).tolist() == [0, -1, 0]
    assert match_pairs([0.0, 1.0, 2.0], [1, 0, 1], 1).tolist() == [0, 0, -1]


@settings(deadline=None, max_examples=300)
@given(
    st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=16),
    st.integers(0, 6),
)
def test_agrees_with_brute_force(people, width):
    score = np.array([s for s, _ in people], dtype=float)
    treated = np.array([t for _, t in people], dtype=int)
    expected = brute_force(score, treated, width)
    assert match_pairs(score, treated, width).tolist() == expected.tolist()


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10_000))
def test_every_pair_has_one_of_each_arm_within_the_caliper(seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 200))
    score, treated = random.normal(size=n), random.integers(0, 2, n)
    matched = match_pairs(score, treated, 0.1)
    for k in range(matched.max() + 1):
        pair = np.flatnonzero(matched == k)
        assert sorted(treated[pair]) == [0, 1]
        assert abs(np.diff(score[pair])[0]) <= 0.1


def test_nobody_within_the_caliper_is_left_over():
    random = np.random.default_rng(5)
    score, treated = random.normal(size=500), random.integers(0, 2, 500)
    left = match_pairs(score, treated, 0.05) < 0
    t, c = score[left & (treated == 1)], score[left & (treated == 0)]
    assert np.abs(t[:, None] - c[None, :]).min() > 0.05


def test_the_propensity_caliper_is_in_standard_deviations_of_everybody():
    logit = np.array([0.0, 1.0, 4.0, 9.0])
    width = np.std(logit, ddof=1) * 0.25
    expected = match_pairs(logit, [1, 0, 1, 0], width)
    found = match_scores(expit(logit), [1, 0, 1, 0], Match(caliper=0.25))
    assert found.tolist() == expected.tolist()
    assert expected.tolist() == [0, 0, -1, -1]


def test_of_pairs_equally_close_the_keys_decide_and_not_the_last_bits():
    for first in np.linspace(0.1, 0.9, 9):
        score = expit(first + np.array([0.0, 0.1, 0.2]))
        rules = (Match(caliper=2.0, seed=seed) for seed in range(20))
        found = {tuple(match_scores(score, [1, 0, 1], rule)) for rule in rules}
        assert found == {(0, 0, -1), (-1, 0, 0)}


def test_a_hundred_thousand_people_take_seconds():
    random = np.random.default_rng(1)
    score, treated = random.normal(size=100_000), random.integers(0, 2, 100_000)
    start = time.process_time()
    match_scores(expit(score), treated)
    match_scores(expit(score.round(2)), treated)
    assert time.process_time() - start < 10


def test_the_input_is_not_changed():
    score, treated = np.array([0.2, 0.1]), np.array([1, 0])
    match_pairs(score, treated, 1)
    assert score.tolist() == [0.2, 0.1]
    assert treated.tolist() == [1, 0]


def test_no_people_make_no_pairs():
    assert match_pairs([], [], 1).tolist() == []
    assert match_scores([0.5], [1]).tolist() == [-1]


@pytest.mark.parametrize(
    ("score", "treated", "width", "words"),
    [
        ([0.1, np.nan], [1, 0], 1, "score of row 1"),
        ([0.1, 0.2], [1], 1, "one value a person"),
        ([0.1, 0.2], [1, 0], -1, "caliper"),
    ],
)
def test_bad_input_is_refused(score, treated, width, words):
    with pytest.raises(DataError, match=words):
        match_pairs(score, treated, width)


@pytest.mark.parametrize("start", [0.1, 0.2, 0.33, 0.123456789, 0.5])
@pytest.mark.parametrize("step", [0.1, 0.05, 0.003, 1 / 30])
def test_a_distance_of_exactly_the_calliper_is_too_far_whatever_its_last_digits(start, step):
    scores = [start, start + step]
    at, above = (
        match_scores(scores, [1, 0], Match(caliper=step * c, scale="propensity score")).tolist()
        for c in (1, 1 + 1e-6)
    )
    assert (at, above) == ([-1, -1], [0, 0])


@pytest.mark.parametrize("shift", [0.0, 0.1, 3.3])
def test_equal_distances_at_the_calliper_are_all_excluded_on_the_logit_scale(shift):
    logit = np.arange(50) / 2 - 12.5 + shift
    scores, treated = 1 / (1 + np.exp(-logit)), np.arange(50) % 2
    calliper = 0.5 / np.std(logit, ddof=1)
    assert match_scores(scores, treated, Match(caliper=calliper)).max() == -1
    assert match_scores(scores, treated, Match(caliper=calliper * (1 + 1e-6))).max() > 15


@pytest.mark.parametrize(
    "use",
    [
        lambda t: match_pairs([0.1, 0.2, 0.3], t, 0.5),
        lambda t: match_scores([0.1, 0.2, 0.3], t),
        lambda t: score_strata([0.1, 0.2, 0.3], t, Stratify(2)),
        lambda t: trim([0.1, 0.2, 0.3], t, Trim(fraction=0.05)),
        lambda t: propensity_weights([0.1, 0.2, 0.3], t),
        lambda t: covariate_balance(np.eye(3), t, after=np.ones(3)),
    ],
)
@pytest.mark.parametrize("wrong", [np.nan, 2, 256, 0.5, None])
def test_arms_other_than_0_and_1_are_refused(use, wrong):
    # A missing arm would be the target's, 256 the comparator's.
    with pytest.raises(DataError, match="treated: row 1 "):
        use([1, wrong, 0])


def test_labels_of_other_people_are_refused():
    for labels in ([1, 1], [1, 1, 1, 2]):
        with pytest.raises(DataError, match=f"{len(labels)} labels and 3 people"):
            match_scores([0.1, 0.2, 0.3], [1, 0, 0], labels=labels)


def test_arms_that_are_text_are_called_text():
    with pytest.raises(DataError, match=r"treated: row 0 .* is text; give 1 for"):
        match_scores([0.1, 0.2, 0.3], ["a", "b", "a"])
