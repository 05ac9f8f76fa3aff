"""Published data: numbers of the literature, and a sentence where a package is missing."""

import sys

import numpy as np
import pandas as pd
import pytest

from reference_numbers import data
from steropes import CoxRegression, FineGrayRegression, Surv, datasets

LOADERS = [name for name in datasets.__all__ if name.startswith("load_")]
SIZES = {
    "load_lung": (228, 165), "load_rossi": (432, 114), "load_heart_transplants": (172, 75),
    "load_breast_cancer": (686, 299), "load_veteran": (137, 128),
    "load_bone_marrow_transplants": (35, 24), "load_doctor_visits": (20_190, 13_882),
}  # fmt: skip


@pytest.mark.parametrize("name", LOADERS)
def test_rows_and_events_are_those_that_were_published(name):
    table = getattr(datasets, name)()
    event = next(c for c in ("status", "arrest", "event", "mdvis") if c in table)
    assert (len(table), int((table[event] > 0).sum())) == SIZES[name]
    assert isinstance(table.index, pd.RangeIndex)
    table.iloc[0, 0] = -1
    assert getattr(datasets, name)().iloc[0, 0] != -1  # each call returns data of its own


@pytest.mark.parametrize("name", ["lung", "veteran"])
def test_times_and_events_are_those_of_r_survival(name):
    ours, theirs = getattr(datasets, f"load_{name}")(), data(name)
    ours = ours.dropna(subset="wt.loss") if name == "lung" else ours  # the rows of that file
    np.testing.assert_array_equal(np.sort(ours["time"]), np.sort(theirs["time"]))
    model = CoxRegression().fit(ours[["age"]], Surv(ours["time"], ours["status"]))
    event = theirs["status"] == theirs["status"].max()
    again = CoxRegression().fit(theirs[["age"]], Surv(theirs["time"], event))
    np.testing.assert_allclose(model.coef_, again.coef_, rtol=1e-8)


def test_causes_of_the_bone_marrow_transplants_are_codes_of_competing_risks():
    bmt = datasets.load_bone_marrow_transplants()
    y = Surv(bmt["time"], bmt["status"])
    assert FineGrayRegression(cause=2).fit(bmt[["dis"]], y).converged_


@pytest.mark.parametrize("name", LOADERS)
def test_a_missing_package_is_named(name, monkeypatch):
    for package in ("lifelines", "sksurv", "statsmodels"):
        monkeypatch.setitem(sys.modules, f"{package}.datasets", None)
    with pytest.raises(ImportError, match=r"pip install (lifelines|scikit-survival|statsmodels)"):
        getattr(datasets, name)()
