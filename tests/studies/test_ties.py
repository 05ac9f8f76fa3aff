"""Equal scores: a seeded draw by person, whatever the order of the rows."""

import numpy as np
import pytest
from scipy.special import expit

from steropes.designs import Match
from steropes.designs.propensity import match_scores
from steropes.designs.propensity.tied_scores import tie_keys, tied_share, try_tie_orders
from steropes.errors import DataError
from steropes.studies import DEMO, StudySettings, comparative_study, demo_database
from steropes.studies.release.one_question_release import publish
from steropes.studies.report.study_checks import checks

IDS = np.random.default_rng(0).choice(10**9, 400, replace=False)
SCORE = expit(np.random.default_rng(1).integers(0, 6, 400).astype(float))
TREATED = (np.random.default_rng(2).random(400) < 0.6).astype(int)


def pairs(order, seed=3, score=SCORE):
    """The matched pairs as sets of ids, rows being in this order."""
    sets = match_scores(score[order], TREATED[order], Match(seed=seed), ids=IDS[order])
    return {frozenset(IDS[order][sets == k].tolist()) for k in range(sets.max() + 1)}


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_rows_has_no_say(seed):
    shuffled = np.random.default_rng(seed).permutation(400)
    assert pairs(shuffled) == pairs(np.arange(400))


def test_the_seed_has():
    assert pairs(np.arange(400), 4) != pairs(np.arange(400), 5)


def test_the_last_bits_of_a_score_have_none():
    noise = SCORE + np.random.default_rng(5).normal(0, 1e-16, 400)
    assert pairs(np.arange(400), score=noise) == pairs(np.arange(400))


def test_each_of_the_tied_is_as_likely():
    # one treated person and nine others with the same score
    treated = np.array([1] + [0] * 9)
    taken = np.zeros(10)
    for seed in range(3000):
        taken[match_scores(np.full(10, 0.5), treated, Match(seed=seed), ids=IDS[:10]) == 0] += 1
    assert taken[0] == 3000
    # nine counts of mean 333.3; chi-squared with 8 degrees of freedom is below 26 in 99.9 %
    assert ((taken[1:] - 3000 / 9) ** 2 / (3000 / 9)).sum() < 26


def test_keys_are_those_of_the_ids():
    keys = tie_keys(IDS, 7)
    assert len(set(keys.tolist())) == len(IDS)
    assert keys.tolist() == [tie_keys([i], 7)[0] for i in IDS]
    assert len(set(tie_keys(["a", "b", "c"], 1).tolist())) == 3
    assert tie_keys([-1, 1], 0).dtype == np.uint64
    assert int(tie_keys([0], 0)[0]) == int(tie_keys(np.array([0], dtype=np.int32), 0)[0])


def test_sets_are_numbered_by_their_first_rows():
    sets = match_scores(SCORE, TREATED, ids=IDS)
    _, first = np.unique(sets[sets >= 0], return_index=True)
    assert (np.diff(first) > 0).all()


def test_ids_must_tell_people_apart():
    with pytest.raises(DataError, match="the same id"):
        match_scores([0.1, 0.2], [1, 0], ids=[5, 5])
    with pytest.raises(DataError, match="2 scores, 2 people and 1 ids"):
        match_scores([0.1, 0.2], [1, 0], ids=[5])


def test_shares_of_the_tied():
    assert tied_share([1, 1, 2, 3]) == (3, 0.5)
    assert tied_share([]) == (0, 0.0)
    tried = try_tie_orders([1.0, 2.0], lambda seeds: [1.0 for _ in seeds], 1, 5)
    assert tried.hazard_ratios == ()


def test_the_demonstration_s_ties_are_a_finding():
    study = comparative_study(demo_database(), StudySettings(**DEMO))
    assert (study.ties.distinct, len(study.ties.hazard_ratios)) == (138, 20)
    assert study.ties.share > 0.9
    (said,) = (c for c in checks(publish(study)) if c.finding.startswith("Ties:"))
    assert not said.passed
    assert "138 distinct scores" in said.finding
    (about,) = (c for c in checks(publish(study)) if c.finding.startswith("Estimand:"))
    assert "among the matched people" in about.finding
    assert any("54% of the larger arm were left out" in c.finding for c in checks(publish(study)))
