"""Series of cohorts by month, quarter and year, counted day by day and released."""

import datetime as dt
import itertools
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import START, TinyOmop

from steropes.studies import OmopDatabase
from steropes.studies.cohort_diagnostics.calendar_series import PERIOD, calendar_series
from steropes.studies.cohorts import CohortTable
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.release.calendar_series_release import released_series

SEXES = (8507, 8532)
STRATA = ["age_group", "gender_id"]


def day(n):
    return START + dt.timedelta(days=int(n))


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A random database of people who are observed around entries of two cohorts."""
    rng = np.random.default_rng(5)
    omop, people, entries = TinyOmop(tmp_path_factory.mktemp("omop")), {}, []
    for _ in range(60):
        first, last = int(rng.integers(-500, 0)), int(rng.integers(200, 900))
        born, sex = int(rng.integers(1930, 2000)), int(rng.choice(SEXES))
        person = omop.person(observed=(first, last), born=born, sex=sex)
        people[person] = (first, last, born, sex)
        for cohort in (1, 2)[: int(rng.integers(0, 3))]:
            cuts = np.sort(rng.choice(np.arange(first, last), 4, replace=False))
            entries += [(cohort, person, *cuts[:2]), (cohort, person, *cuts[2:])]
    cohort, person, start, end = zip(*entries, strict=True)
    table = CohortTable(cohort, person, [day(n) for n in start], [day(n) for n in end])
    with OmopDatabase(omop.write()) as db, db.workspace() as work:
        table.place(work, "entries")
        found = calendar_series(db, work, "entries")
    return people, entries, found


def periods_of(on):
    """Return the month, quarter and year of a day: interval, first and last day."""
    found = []
    for name, months in (("m", 1), ("q", 3), ("y", 12)):
        month = (on.month - 1) // months * months + 1
        after = dt.date(on.year + (month + months > 12), (month + months - 1) % 12 + 1, 1)
        found.append((name, dt.date(on.year, month, 1), after - dt.timedelta(days=1)))
    return found


def test_series_count_days_entries_and_people_of_each_period(case):
    people, entries, found = case
    first = {}
    for cohort, person, start, _ in entries:
        first[cohort, person] = min(start, first.get((cohort, person), start))
    counted = defaultdict(lambda: defaultdict(set))
    spans = [("T1", *e, e[2] == first[e[:2]]) for e in entries]
    members = dict.fromkeys(e[:2] for e in entries)
    spans += [("T2", c, p, *people[p][:2], False) for c, p in members]
    for kind, cohort, person, start, end, earliest in spans:
        born, sex = people[person][2:]
        for n in range(start, end + 1):
            for interval, begin, until in periods_of(day(n)):
                stratum = ((begin.year - born) // 10, sex)
                for use in itertools.product((True, False), repeat=2):
                    of = [x if u else None for x, u in zip(stratum, use, strict=True)]
                    sets = counted[cohort, kind, interval, begin, until, *of]
                    sets["person_days"].add((person, start, n))
                    sets["records"].add((person, start))
                    sets["subjects"].add(person)
                    if earliest:
                        sets["person_days_in"].add((person, start, n))
                    for name, edge in (("start", start), ("end", end)):
                        if n == edge:
                            sets[f"records_{name}"].add((person, start))
                            sets[f"subjects_{name}"].add(person)
                            if earliest:
                                sets[f"subjects_{name}_in"].add(person)
    parts = found[found["calendar_interval"] != "c"]
    assert len(parts) == len(counted)
    for line in parts.to_dict("records"):
        dates = [pd.Timestamp(line[name]).date() for name in PERIOD[3:]]
        of = [None if pd.isna(line[name]) else int(line[name]) for name in STRATA]
        sets = counted[
            (line["cohort_id"], line["series_type"], line["calendar_interval"], *dates, *of)
        ]
        for name in line.keys() - {*PERIOD, *STRATA, "subjects_in"}:
            assert line[name] == len(sets[name]), (line, name)
    whole = found[(found["calendar_interval"] == "c") & found[STRATA].isna().all(axis=1)]
    own = whole[whole["series_type"] == "T1"].set_index("cohort_id")
    assert own["records"].tolist() == [sum(e[0] == c for e in entries) for c in (1, 2)]
    assert own["subjects_start_in"].tolist() == own["subjects"].tolist()


def test_released_series_have_no_small_count_nor_one_that_follows(case):
    *_, exact = case
    rules = DisclosureRules()
    shown = released_series(exact, rules)
    assert [*shown] == [name for name in exact if name != "subjects_in"]
    counts = [name for name in shown if name.startswith(("records", "subjects"))]
    for name in counts:
        small = exact[name].between(1, 4).to_numpy()
        assert (shown[name][small] < 0).all()
        assert (shown[name][shown[name] >= 0] % 5 == 0).all()
    few = exact["subjects"].between(1, 4).to_numpy()
    assert shown["person_days"][few].isna().all()
    # If one of two sexes is suppressed, the other is withheld where it would narrow it.
    sexes = shown[shown["age_group"].isna() & shown["gender_id"].notna()]
    for _, of in sexes.groupby(PERIOD):
        if len(of) == 2 and (of["subjects"] == -5).any():
            total = shown[(shown[PERIOD] == of[PERIOD].iloc[0]).all(axis=1)]
            total = total[total[STRATA].isna().all(axis=1)]["subjects"].item()
            other = of["subjects"].max()
            assert other < 0 or total - other + 4 >= 4
    open_ = released_series(exact, DisclosureRules("none", 0))
    pd.testing.assert_frame_equal(open_, exact.drop(columns="subjects_in"))
