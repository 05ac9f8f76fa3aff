"""No suppressed count follows from person-time, or from the counts of strata and totals."""

import itertools
from collections import Counter, defaultdict
from functools import partial

import numpy as np
import pytest
from tests.studies.cohort_attacks import (
    attack_calendar,
    attack_pathways,
    exact_calendar,
    exact_pathways,
    release_of_pathways,
    released_tables,
)
from tests.studies.cohort_diagnostics_attacks import (
    AGAIN,
    attack_again,
    attack_index,
    attack_overlap,
    attack_visits,
    attack_windows,
    exact_index,
    exact_overlap,
    exact_visits,
    exact_windows,
)
from tests.studies.conftest import TinyOmop
from tests.studies.count_attacks import (
    STRATA,
    attack_baseline,
    attack_challenges,
    attack_rates,
    attack_statistics,
    attack_times,
    exact_baseline,
    exact_challenges,
    exact_rates,
    exact_times,
    inclusion_statistics,
    people_of,
)
from tests.studies.grid_count_attacks import attack_grid, exact_grid, released_grid
from tests.studies.prediction_attacks import (
    attack_prediction,
    random_prediction,
    random_validation,
    released_prediction,
)
from tests.studies.question_attacks import attack_question, exact_question, released_question
from tests.studies.series_attacks import attack_series, exact_series, released_series
from tests.studies.test_series_release_attacks import regular_series

from steropes.studies import StudySettings, case_series, case_series_settings, comparative_study
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.complementary_suppression import part_split, withheld_counts
from steropes.studies.release.strategus_release import (
    released_baseline,
    released_challenges,
    released_rates,
    released_statistics,
    released_times,
)

RULES = [DisclosureRules(), DisclosureRules("opensafely", 8)]
LENGTH = 30  # Days at risk of everybody who stays.


def random_rates(rng):
    """Exact rates of 8 to 150 people with one, two or three kinds of strata."""
    people = people_of(rng, int(rng.integers(8, 150)), LENGTH)
    return exact_rates(people, STRATA[: rng.integers(1, 4)])


# By table: how exact counts are made, released and attacked, and the databases of the fast suite.
ATTACKS = {
    "incidence": (random_rates, released_rates, partial(attack_rates, length=LENGTH), 2),
    "inclusion": (inclusion_statistics, released_statistics, attack_statistics, 10),
    "challenges": (exact_challenges, released_challenges, attack_challenges, 40),
    "baseline": (exact_baseline, released_baseline, attack_baseline, 20),
    "times": (exact_times, released_times, attack_times, 1),
    "grid": (exact_grid, released_grid, attack_grid, 2),
    "question": (exact_question, released_question, attack_question, 2),
    "series": (exact_series, released_series, attack_series, 0),
    "prediction": (random_prediction, released_prediction, attack_prediction, 2),
    "validation": (random_validation, released_prediction, attack_prediction, 0),
    "pathways": (exact_pathways, release_of_pathways, attack_pathways, 0),
    "calendar": (exact_calendar, released_tables, attack_calendar, 0),
    "index-events": (exact_index, released_tables, attack_index, 0),
    "visits": (exact_visits, released_tables, attack_visits, 0),
    "overlap": (exact_overlap, released_tables, attack_overlap, 0),
    "windows": (exact_windows, released_tables, attack_windows, 0),
}


def attacked(kind, databases, rules):
    """Count what the attacker finds in the released tables of random databases."""
    made, release, attack, fast = ATTACKS[kind]
    found = Counter()
    for seed in range(databases or fast):
        exact = made(np.random.default_rng(seed))
        found += attack(release(exact, rules, "x"), exact, rules)
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("kind", [kind for kind, (*_, fast) in ATTACKS.items() if fast])
def test_no_suppressed_count_has_a_single_possible_value(kind, rules):
    found = attacked(kind, None, rules)
    assert found["suppressed"] > 10
    assert found["exact"] == 0


def test_years_beside_pathways_of_the_same_people_narrow_no_small_number():
    """At most 57 and 12 people have one of two pathways, and at least 68 are of one year."""
    exact = exact_pathways(np.random.default_rng((80, 41)))
    found = attack_pathways(release_of_pathways(exact, RULES[0], "x"), exact, RULES[0])
    assert found["suppressed"] > 1
    assert found["exact"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("kind", ATTACKS)
def test_no_suppressed_count_of_many_databases_has_a_single_possible_value(kind, rules):
    found = attacked(kind, 200, rules)
    assert found["suppressed"] > 100
    assert found["exact"] == 0
    assert found["two"] <= found["suppressed"] / 50


@pytest.mark.slow
@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("kind", AGAIN)
def test_two_releases_of_which_one_lacks_a_person_leave_few_counts_a_single_value(kind, rules):
    """A limit of rounding can be crossed, which tells a count; see the page on disclosure."""
    found = Counter()
    for seed in range(50):
        found += attack_again(kind, (69, seed), rules)
    print(kind, rules, dict(found))
    assert found["suppressed"] > 50
    assert found["exact"] <= found["suppressed"] / 50


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_days_at_risk_divided_by_their_length_count_nobody(rules):
    """Everybody has 30 days, so that exact days are 30 times the number of people."""
    suppressed, right = 0, 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        people = people_of(rng, 40, LENGTH).assign(days=LENGTH, excluded=0)
        exact = exact_rates(people, STRATA[:2])
        shown = released_rates(exact, rules, "x").reindex(exact.index)
        of = np.rint(shown["person_days_pe"] / LENGTH)
        whole = exact[STRATA].isna()
        total = of[whole.all(axis=1)].iloc[0]
        for stratum in STRATA[:2]:
            parts = ~whole[stratum] & whole[[s for s in STRATA if s != stratum]].all(axis=1)
            exact_parts, known = exact.loc[parts, "persons_at_risk"], of[parts]
            few = exact_parts.between(1, rules.least - 1)
            suppressed += few.sum()
            if few.sum() == 1 and known[~few].notna().all():
                right += total - known.sum() == exact_parts[few].iloc[0]
    assert suppressed > 10
    assert right == 0


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_days_reveal_no_outcomes_by_the_clean_windows_that_they_exclude(rules):
    """Every outcome excludes ten days, so that exact days differ by ten times the outcomes."""
    people = people_of(np.random.default_rng(1), 90, LENGTH).assign(days=LENGTH)
    found = []
    for cases in range(1, rules.least):
        outcome = np.arange(90) < cases
        exact = exact_rates(people.assign(outcome=outcome, excluded=np.where(outcome, 10, 0)), [])
        found.append(released_rates(exact, rules, "x"))
    for other in found[1:]:
        assert found[0].equals(other)


@pytest.mark.parametrize("fewest", [0, 1])
@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("strata", [4, pytest.param(5, marks=pytest.mark.slow)])
def test_an_attacker_who_knows_that_all_strata_are_withheld_finds_no_count(strata, rules, fewest):
    """All strata are alike, so that each can be any count of the vectors that are withheld."""
    split, possible = [part_split(1, strata)], defaultdict(set)
    most = strata * rules.least + 6
    for counts in itertools.combinations_with_replacement(range(fewest, most), strata):
        if counts[0] >= rules.least or sum(counts) > most or not any(counts):
            continue
        shown = np.array([rules.coarse(n) for n in (sum(counts), *counts)], float)
        if shown[0] > 0 and withheld_counts(shown, split, rules, fewest=fewest).any():
            possible[shown[0]].update(counts)
    assert len(possible) > 2
    assert min(map(len, possible.values())) > 2


@pytest.mark.sampled
@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("strata", [2, 3])
def test_an_attacker_who_knows_the_rules_finds_no_exact_count_of_strata(rules, strata):
    """All counts that give the same release are enumerated, so that withholding tells nothing."""
    most = 26 if rules.rounds else 22
    split = [part_split(1, strata)]
    by_release = defaultdict(list)
    for counts in itertools.product(range(1, most), repeat=strata):
        shown = np.array([rules.coarse(n) for n in (sum(counts), *counts)], float)
        shown[withheld_counts(shown, split, rules)] = np.nan
        by_release[shown.tobytes()].append(counts)
    suppressed = 0
    for release, counts in by_release.items():
        for shown, own in zip(np.frombuffer(release)[1:], np.transpose(counts), strict=True):
            if not shown > 0:
                suppressed += 1
                assert len({*own.tolist()}) > 1, (np.frombuffer(release), counts)
    assert suppressed


@pytest.mark.sampled
@pytest.mark.parametrize(("kind", "rules", "seed"), [
    ("pathways", 0, (68, 31)), ("pathways", 1, (68, 34)), ("pathways", 0, (90, 95)),
    ("calendar", 0, (68, 2)), ("calendar", 1, (68, 2)), ("visits", 0, (68, 23)),
    ("windows", 1, (68, 103)), ("grid", 0, (69, 20)),
])  # fmt: skip
def test_counts_that_followed_in_a_random_database_do_not_follow(kind, rules, seed):
    """Each had a single value before all that add up was searched in these tables."""
    made, release, attack, _ = ATTACKS[kind]
    exact = made(np.random.default_rng(seed))
    found = attack(release(exact, RULES[rules], "x"), exact, RULES[rules])
    assert found["exact"] == 0


def test_what_is_withheld_does_not_depend_on_the_order_of_strata():
    """The order would tell which of both strata is the suppressed one."""
    of = [([0, 1], [6, 6]), ([2, 3, 4, 5], [7, 7, 8, 8]), ([8, 4, 5], [7, 2, 3])]
    splits = [(np.array(parts), np.array(totals)) for parts, totals in of]
    first, second = (
        withheld_counts(np.array([*pair, *pair, *pair, 27.0, 27.0, 27.0]), splits, RULES[1])
        for pair in ([-8.0, 15.0], [15.0, -8.0])
    )
    assert first[6:].tolist() == second[6:].tolist()


def test_two_small_strata_of_a_small_total_are_withheld():
    shown = np.array([10.0, -5.0, -5.0, 500.0, -5.0, 495.0])
    gone = withheld_counts(shown, [part_split(2, 2)], DisclosureRules())
    assert gone.tolist() == [False, True, True, False, False, False]
    # Strata that overlap say nothing about their total.
    shown = np.array([100.0, 90.0, 80.0, -5.0])
    assert not withheld_counts(shown, [part_split(1, 3)], DisclosureRules()).any()


def test_person_years_of_opensafely_do_not_tell_how_many_people_were_rounded(tmp_path):
    """Everybody has 30 days at risk, so that exact days are 30 times the number of people."""
    found = []
    for n in (98, 102):  # Both are released as 99.
        (folder := tmp_path / str(n)).mkdir()
        omop = TinyOmop(folder)
        rng = np.random.default_rng(1)
        for i in range(2 * n):
            person = omop.person(
                **{("target", "comparator")[i % 2]: 0},
                observed=(-1000, 900),
                born=1950 + i // 2 % 30,
            )
            if i < 60:
                omop.condition(person, 3, int(rng.integers(2, 25)) if i < 40 else 600)
        settings = StudySettings(1, 2, 3, risk_days=30, unblind=True, min_people=3, caliper=1.0)
        study = comparative_study(omop.write(), settings, disclosure="opensafely")
        found.append([line for line in study.release.rates if line["analysis"] == "all"])
        assert [line["people"] for line in found[-1]] == [99, 99]
    names = ("person_years", "rate", "rate_lower", "rate_upper")
    for line, other in zip(*found, strict=True):
        assert all(line[name] == other[name] > 0 for name in names)


def test_days_of_opensafely_case_series_do_not_tell_how_many_cases_were_rounded(tmp_path):
    """Every case has the same days in each window, and is observed on as many days."""
    found = []
    for n in (62, 66):  # Both are released as 63.
        (folder := tmp_path / str(n)).mkdir()
        path = regular_series(TinyOmop(folder), 14, 13, 12, n)
        made = case_series(path, case_series_settings(3, 1, unblind=True), disclosure="opensafely")
        result = made.tables()["sccs_result"].iloc[0]
        found.append(
            [result["covariate_days"], result["observed_days"], made.release.days["exposure"],
             made.release.days["pre-exposure"], *made.release.attrition["days"]]
        )  # fmt: skip
        assert result["covariate_subjects"] == 63
    assert found[0] == found[1]
    assert all(days > 0 for days in found[0])


def test_people_left_by_matching_do_not_follow_from_those_before_and_those_dropped():
    exact = exact_question(np.random.default_rng([66, 197]))
    rules = DisclosureRules()
    found = attack_question(released_question(exact, rules, None), exact, rules)
    assert found["suppressed"] > 0
    assert found["exact"] == 0
