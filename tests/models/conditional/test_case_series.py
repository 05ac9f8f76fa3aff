"""The self-controlled case series: Farrington's published example, and what it must not use."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from steropes import DataError, SelfControlledCaseSeries

FILE = Path(__file__).parents[4] / "shared" / "data" / "oxford_sccs.csv"

# Viral meningitis after MMR vaccination, Oxford: day of the event and of the vaccination of ten
# children observed from day 366 to 730 (Whitaker and others 2006, §4).
EVENT = [398, 413, 449, 455, 472, 474, 485, 524, 700, 399]
VACCINATION = [458, 392, 429, 433, 432, 395, 470, 496, 428, 716]


def intervals(event, vaccination, start=365, end=730, risk=(15, 35), age=547):
    """One row an interval: cut at the risk window's ends and the age groups' boundary."""
    rows = []
    for child, (day, shot) in enumerate(zip(event, vaccination, strict=True)):
        first, last = shot + risk[0] - 1, shot + risk[1]
        cuts = np.unique(np.clip([start, first, last, age, end], start, end))
        for a, b in zip(cuts[:-1], cuts[1:], strict=True):
            exposed, old = first <= a and b <= last, a >= age
            rows.append((child, b - a, int(a < day <= b), float(exposed), float(old)))
    return pd.DataFrame(rows, columns=["child", "days", "events", "risk", "age"])


def fit(rows, **options):
    model = SelfControlledCaseSeries(**options)
    return model.fit(rows[["risk", "age"]], rows.events, strata=rows.child, exposure=rows.days)


def check_published(model):
    row = model.summary().loc["risk"]
    assert round(np.exp(row["coef"]), 2) == 12.04
    assert round(np.exp(row["lower"]), 2) == 3.00
    assert round(np.exp(row["upper"]), 2) == 48.26


def test_published_rate_ratio_of_meningitis_after_vaccination():
    check_published(fit(intervals(EVENT, VACCINATION)))


@pytest.mark.skipif(not FILE.exists(), reason="../shared/data/oxford_sccs.csv is not here")
def test_published_rate_ratio_from_the_file():
    table = pd.read_csv(FILE)
    assert table.eventday.tolist() == EVENT
    assert table.exday.tolist() == VACCINATION
    assert (table.start == 365).all()
    assert (table.end == 730).all()
    check_published(fit(intervals(table.eventday, table.exday)))


def test_people_without_events_or_with_one_interval_change_nothing(rng):
    rows = intervals(EVENT, VACCINATION)
    quiet = rows.assign(child=rows.child + 100, events=0)
    single = pd.DataFrame(
        {"child": [500], "days": [40], "events": [3], "risk": [1.0], "age": [0.0]}
    )
    more = pd.concat([quiet, rows, single]).sample(frac=1, random_state=1)
    a, b = fit(rows), fit(more)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-10)
    np.testing.assert_allclose(a.log_likelihood_, b.log_likelihood_, rtol=1e-13)
    np.testing.assert_allclose(a.vcov(), b.vcov(), rtol=1e-9)


def test_several_events_of_a_person_are_several_draws():
    rows = intervals(EVENT, VACCINATION)
    twice = rows.assign(events=2 * rows.events)
    a, b = fit(rows), fit(twice)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-9)
    np.testing.assert_allclose(b.log_likelihood_, 2 * a.log_likelihood_, rtol=1e-12)
    np.testing.assert_allclose(a.vcov(), 2 * b.vcov(), rtol=1e-9)


def test_only_the_proportions_of_a_person_s_days_count():
    rows = intervals(EVENT, VACCINATION)
    longer = rows.assign(days=rows.days * (1.0 + rows.child))
    np.testing.assert_allclose(fit(rows).coef_, fit(longer).coef_, atol=1e-9)


def test_exposure_is_an_offset_of_log_days():
    rows = intervals(EVENT, VACCINATION)
    a = fit(rows)
    b = SelfControlledCaseSeries().fit(
        rows[["risk", "age"]], rows.events, strata=rows.child, offset=np.log(rows.days)
    )
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-12)


def test_refusals():
    rows = intervals(EVENT, VACCINATION)
    with pytest.raises(DataError, match="needs the lengths of the intervals"):
        SelfControlledCaseSeries().fit(rows[["risk"]], rows.events, strata=rows.child)
    with pytest.raises(DataError, match="strata=labels"):
        SelfControlledCaseSeries().fit(rows[["risk"]], rows.events, exposure=rows.days)
    with pytest.raises(DataError, match="exposure must be positive; row 0 is 0"):
        fit(rows.assign(days=rows.days * (rows.index > 0)))
