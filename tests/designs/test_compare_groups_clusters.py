"""Comparisons of groups with errors by clusters of people."""

import numpy as np
import pandas as pd
import pytest

from steropes import DataError, compare_groups
from steropes.designs import Matching

NAMES = {
    "treatment": "treat", "outcome": "re78",
    "covariates": ["age", "educ", "married", "nodegree", "re74", "re75"],
}  # fmt: skip


@pytest.fixture(scope="module")
def wards(lalonde):
    """Everybody once and twice, with wards, and times of an event."""
    rng = np.random.default_rng(6)
    once = lalonde.assign(
        ward=rng.integers(0, 40, len(lalonde)), row=np.arange(len(lalonde)),
        days=rng.exponential(20, len(lalonde)).round(1) + 0.1,
        ended=rng.integers(0, 2, len(lalonde)),
    )  # fmt: skip
    return once, pd.concat([once, once], ignore_index=True)


@pytest.mark.parametrize(
    "outcome",
    [{"outcome": "re78"}, {"time": "days", "event": "ended", "ties": "breslow", "horizon": 30}],
)
def test_people_who_are_there_twice_count_once_in_errors_by_clusters(wards, outcome):
    once, twice = wards
    given = NAMES | {"outcome": None} | outcome | {"covariates": ["age", "educ", "married"]}
    given |= {"adjust": ["weights", "entropy", "standardization"], "cluster": "row"}
    alone, both = (compare_groups(people, **given).effects for people in (once, twice))
    assert alone["errors"].str.endswith("clustered by 'row'").all()
    np.testing.assert_allclose(both["estimate"], alone["estimate"], rtol=1e-6)
    np.testing.assert_allclose(both["se"], alone["se"], rtol=1e-3)  # small-sample factors


def test_matched_sets_lie_within_clusters(wards):
    once = wards[0].assign(ward=lambda people: (people["ward"] % 8).astype(str))
    given = NAMES | {"estimand": "ATT", "cluster": "ward", "covariates": ["age", "ward"]}
    with pytest.raises(DataError, match=r"several clusters of 'ward'.*exact=\['ward'\]"):
        compare_groups(once, **given, adjust="matching")
    with pytest.raises(DataError, match="not known after matching with replacement"):
        compare_groups(once, **given, adjust=Matching(replace=True))
    found = compare_groups(once, **given, adjust=Matching(exact=["ward"]), bootstrap=3)
    assert found.effects["errors"].str.contains("clusters of people").all()
    found = compare_groups(once, **given | {"covariates": ["age", "educ"]}, adjust="aipw")
    assert found.effects["errors"].iloc[-1] == "influence function, cross-fitted, clustered"


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("treat", "cluster 'treat' is the treatment itself"), ("nobody", "no column 'nobody'"),
        ("one", "cluster 'one' has one value"), ("gap", "cluster 'gap' is missing in row"),
    ],
)  # fmt: skip
def test_bad_clusters_are_refused(lalonde, cluster, message):
    people = lalonde.assign(one=1, gap=[None, *"ab" * 306, "a"])
    with pytest.raises(DataError, match=message):
        compare_groups(people, **NAMES, cluster=cluster)
