"""Tables of Kaplan–Meier and Aalen–Johansen curves: lifelines, R, and by counting."""

import numpy as np
import pytest
from lifelines import KaplanMeierFitter

from reference_numbers import data
from steropes import DataError, Surv, aalen_johansen, kaplan_meier

RNG = np.random.default_rng(8)
N = 120
TIME = RNG.integers(1, 30, N).astype(float)
CODE = RNG.integers(0, 3, N)
WEIGHT = RNG.integers(0, 3, N).astype(float)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_default_table_is_that_of_lifelines_at_the_events():
    table = kaplan_meier(Surv(TIME, CODE > 0)).table()
    theirs = KaplanMeierFitter().fit(TIME, CODE > 0)
    events = theirs.event_table[theirs.event_table["observed"] > 0]
    np.testing.assert_array_equal(table.index, events.index)
    np.testing.assert_allclose(table["at_risk"], events["at_risk"])
    np.testing.assert_allclose(table["events"], events["observed"])
    survival = theirs.survival_function_.iloc[:, 0].loc[table.index]
    np.testing.assert_allclose(table["survival"], survival, atol=1e-15)
    limits = theirs.confidence_interval_.loc[table.index].to_numpy()
    np.testing.assert_allclose(table[["lower", "upper"]].iloc[:-1], limits[:-1], rtol=1e-9)


def test_people_at_risk_and_events_are_counted():
    d = data("lung")
    table = kaplan_meier(Surv(d["time"], d["status"])).table([730, 100, 365])
    assert table.index.tolist() == [100, 365, 730]
    at_risk = [(d["time"] >= t).sum() for t in table.index]
    assert table["at_risk"].tolist() == at_risk
    counts = [((d["time"] <= t) & (d["status"] == 1)).sum() for t in table.index]
    assert table["events"].cumsum().tolist() == counts


def test_weights_are_repeats_and_times_beyond_are_unknown():
    y, rows = Surv(TIME, CODE), np.repeat(np.arange(N), WEIGHT.astype(int))
    whole = aalen_johansen(y, sample_weight=WEIGHT).table([3, 10, 25])
    np.testing.assert_allclose(whole, aalen_johansen(y[rows]).table([3, 10, 25]), rtol=1e-9)
    late = kaplan_meier(Surv([1.0, 2.0], [1, 0])).table([0.5, 1.0, 3.0])
    assert late["survival"].tolist()[:2] == [1.0, 0.5]
    assert late["survival"].isna().tolist() == [False, False, True]
    assert late["at_risk"].tolist() == [2.0, 2.0, 0.0]


def test_table_of_incidences_is_the_curve():
    curves = aalen_johansen(Surv(TIME, CODE))
    table = curves.table([5, 12])
    assert table["cause"].tolist() == [1, 1, 2, 2]
    assert table["time"].tolist() == [5, 12, 5, 12]
    np.testing.assert_array_equal(table["incidence"], curves.at([5, 12]).to_numpy().T.ravel())
    np.testing.assert_array_equal(table["se"], curves.standard_error([5, 12]).to_numpy().T.ravel())
    for k in (1, 2):
        counted = table.loc[table["cause"] == k, "events"].cumsum().tolist()
        expected = [np.sum(CODE[t >= TIME] == k) for t in (5, 12)]
        assert counted == expected
    assert set(curves.table()["time"]) == set(TIME[CODE > 0])


def test_html_shows_totals_and_no_times():
    curve = kaplan_meier(Surv([1.25, 2.75, 3.5], [1, 0, 1]))
    text = curve._repr_html_()
    assert "events" in text
    assert "2.75" not in text
    assert "cause 2" in aalen_johansen(Surv(TIME, CODE))._repr_html_()


def test_missing_times_and_levels_are_refused():
    curve, curves = kaplan_meier(Surv(TIME, CODE > 0)), aalen_johansen(Surv(TIME, CODE))
    for one in (curve, curves):
        with pytest.raises(DataError, match="times"):
            one.table([np.nan])
        with pytest.raises(DataError, match="level"):
            one.table(level=95)
