"""Outcomes by week around the first exposure are released so that no suppressed count follows."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from tests.studies.count_attacks import coarse_range, judged
from tests.studies.release_attacker import (
    Unknowns,
    cell_range,
)

from steropes.studies import case_series
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.disclosure.effect_suppression import Secrecy
from steropes.studies.disclosure.small_cell_suppression import Bound
from steropes.studies.release.series_covariate_counts import CovariateCounts
from steropes.studies.release.series_weeks import released_weeks
from steropes.studies.sccs.specification.case_series_settings import (
    CaseRules,
    CaseSeriesSettings,
    ExposureWindow,
)

DAYS = 701


def exposed_once(omop, few, drugs=(1,), n=60):
    """Cases with one of some drugs, of whom few have the outcome on the days of exposure."""
    omop.concept(9, "another drug")
    for k in range(n):
        person = omop.person(observed=(0, DAYS - 1), born=1950 + k % 20)
        omop.drug(person, drugs[k % len(drugs)], 300, 320)
        omop.condition(person, 3, 302 if k < few else 280 if k < 20 else 400 + k)
    return omop.write()


def test_weeks_of_two_windows_of_an_exposure_are_written_once(omop):
    """Before, the primary key of R's results model was not unique."""
    windows = tuple(
        ExposureWindow(name, (1,), start=start, end=start + 6, end_at="start", of_interest=True)
        for name, start in (("first week", 0), ("second week", 7))
    )
    study = case_series(exposed_once(omop, 12), CaseSeriesSettings(CaseRules(3), windows))
    tables = study.tables()
    weeks = tables["sccs_time_to_event"]
    assert len(weeks) == weeks[["era_id", "week"]].drop_duplicates().shape[0] == 52
    assert len(tables["sccs_exposure"]) == 1
    assert study.release.weeks["first week"].equals(study.release.weeks["second week"])


@pytest.mark.parametrize("few", [3, 12])
def test_weeks_of_several_drugs_are_left_out_where_outcomes_of_their_window_are_hidden(omop, few):
    """Before, only windows of one drug were looked at."""
    window = ExposureWindow("both", (1, 9), end=20, end_at="start", of_interest=True)
    path = exposed_once(omop, few, drugs=(1, 9))
    study = case_series(path, CaseSeriesSettings(CaseRules(3), (window,)))
    assert isinstance(study.release.counts["both"].events, Bound) == (few < 5)
    assert (len(study.tables()["sccs_time_to_event"]) > 0) == (few >= 5)


def weekly_tables(weeks, events, first=0):
    """Exact tables of an exposure with outcomes by week and windows of whole weeks."""
    at = {"analysis_id": 1, "exposures_outcome_set_id": 1}
    return {
        "sccs_exposures_outcome_set": pd.DataFrame([at | {"outcome_id": 3}]),
        "sccs_covariate": pd.DataFrame(
            [at | {"covariate_id": 1000, "covariate_analysis_id": 1, "era_id": 1,
                   "first_day": 7 * first, "last_day": None}]
        ),
        "covariate_count": pd.DataFrame([at | {"covariate_id": 1000, "events": events}]),
        "sccs_time_to_event": pd.DataFrame(
            [at | {"era_id": 1, "week": k, "observed_subjects": 90, "outcomes": n}
             for k, n in zip(range(-4, 8), weeks, strict=True)]
        ),
    }  # fmt: skip


@pytest.mark.parametrize("rules", [DisclosureRules(), DisclosureRules("opensafely", 8)], ids=str)
def test_outcomes_of_weeks_do_not_follow_from_those_of_a_window(rules):
    """The attacker knows that everybody's window has so many whole weeks."""
    rng, found, shown = np.random.default_rng(4), Counter(), 0
    for _ in range(100):
        weeks, window = rng.poisson(rng.uniform(0.3, 12, 12)), int(rng.integers(1, 7))
        first = int(rng.choice([0, 0, 1, 2]))
        window = min(window, 8 - first)
        events = int(weeks[4 + first : 4 + first + window].sum())
        exact = weekly_tables(weeks, events, first)
        counts = {
            (1, 1, 1000): CovariateCounts(90, 90, 90, rules.count(events), Secrecy(False, 0.0))
        }
        released = released_weeks(exact, counts, rules)
        x, hidden, truth = Unknowns(), [], {}
        for k, n in zip(released["week"], released["outcomes"], strict=True):
            x.add(k, *coarse_range(n, rules))
            truth[k] = int(weeks[k + 4])
            if n < 0:
                hidden.append(k)
        if not len(released):
            continue
        shown += 1
        x.add("window", *cell_range(rules.rounded(events), rules.least, rules.rounds))
        x.say([(1, "window"), *((-1, k) for k in range(first, first + window))], 0, 0)
        assert not rules.small(events)  # or no week is released
        found += judged(x, hidden, truth)
    assert found["suppressed"] > 50
    assert shown > 25
    assert found["exact"] == found["two"] == 0


@pytest.mark.parametrize("rules", [DisclosureRules(), DisclosureRules("opensafely", 8)], ids=str)
def test_outcomes_of_weeks_of_an_age_do_not_follow_from_those_of_all_ages(rules):
    """Four and four followed from a week of eight or more, which is released as ten."""
    rng, found, shown = np.random.default_rng(5), Counter(), Counter()
    for trial in range(60):
        young, old = rng.poisson(rng.choice([3, 9, 60], (2, 1)), (2, 12))
        if not trial:
            young[5] = old[5] = rules.least - 1
        own = {1: young + old, 2: young, 3: old}
        tables = {k: weekly_tables(n, int(n[4:8].sum())) for k, n in own.items()}
        exact = {
            name: pd.concat([of[name].assign(analysis_id=k) for k, of in tables.items()])
            for name in tables[1]
        }
        exact = {name: table.reset_index(drop=True) for name, table in exact.items()}
        counts = {
            (k, 1, 1000): CovariateCounts(900, 900, 900, int(n[4:8].sum()), Secrecy(False, 0.0))
            for k, n in own.items()
        }
        released = released_weeks(exact, counts, rules)
        x, hidden, truth = Unknowns(), [], {}
        for analysis, k, n in released[["analysis_id", "week", "outcomes"]].itertuples(index=False):
            name = int(analysis), int(k)
            x.add(name, *coarse_range(n, rules))
            truth[name] = int(own[analysis][k + 4])
            hidden += [name] if n < 0 else []
        shown.update(released["analysis_id"].unique().tolist())
        if released["analysis_id"].nunique() == 3:
            for k in released["week"].unique():
                x.say([(1, (1, int(k))), (-1, (2, int(k))), (-1, (3, int(k)))], 0, 0)
        found += judged(x, hidden, truth)
    assert min(shown[k] for k in own) > 5
    assert found["suppressed"] > 20
    assert found["exact"] == found["two"] == 0
