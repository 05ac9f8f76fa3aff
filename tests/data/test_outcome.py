"""Survival outcomes as arrays, and the labels of strata."""

import numpy as np
import pandas as pd
import pytest

from steropes import DataError, Surv
from steropes.data import check_strata, check_survival
from steropes.data.vector_checks import label_strata


def test_surv_is_an_array_that_slices():
    y = Surv([3, 1, 2], [True, False, True], entry=[0, 0.5, -np.inf])
    assert y.dtype.names == ("event", "time", "entry")
    assert y[[2, 0]]["time"].tolist() == [2.0, 3.0]
    assert y["event"].tolist() == [1, 0, 1]


def test_surv_copies_what_it_is_given():
    time, event = np.array([1.0, 2.0]), np.array([1, 0])
    y = Surv(time, event)
    y["time"][0] = 9.0
    assert time[0] == 1.0


def test_competing_events_keep_their_codes():
    assert Surv([1, 2, 3], [0, 1, 2])["event"].tolist() == [0, 1, 2]


def test_swapped_times_and_events_are_recognised():
    with pytest.raises(DataError, match="time and event seem swapped"):
        check_survival(Surv([1, 0, 1], [5, 9, 2]), 3)
    with pytest.raises(
        DataError, match=r"row 0 is 5\.5\. All times are 0 or 1: time and event seem"
    ):
        Surv([True, False, True], [5.5, 9.25, 2.0])
    with pytest.raises(DataError, match="FineGrayRegression"):
        check_survival(Surv([1, 2, 1], [0, 1, 2]), 3)


def test_arrays_of_scikit_survival_are_read():
    y = np.array([(True, 2.0), (False, 3.0)], dtype=[("status", bool), ("days", float)])
    read = check_survival(y, 2)
    assert read.time.tolist() == [2.0, 3.0]
    assert read.event.tolist() == [1, 0]
    assert read.entry is None


def test_negative_times_are_allowed_with_an_entry():
    assert Surv([-1.0], [1], entry=[-2.0])["time"][0] == -1.0


@pytest.mark.parametrize(
    "labels",
    [
        ["b", "a", "b"],
        [("x", 1), ("y", 2), ("x", 1)],
        np.array([2.5, -1.0, 2.5]),
        pd.Series(pd.Categorical(["b", "a", "b"])),
        pd.Series(pd.to_datetime(["2020-01-02", "2020-01-01", "2020-01-02"])),
        np.array([7, 3, 7])[:, None],
        np.array([("x", 1), ("y", 2), ("x", 1)], [("a", "U1"), ("b", int)]),
    ],
    ids=["text", "tuples", "numbers", "categories", "dates", "column", "fields"],
)
def test_strata_are_numbered_by_their_first_row_whatever_the_labels(labels):
    assert check_strata(labels, 3).tolist() == [0, 1, 0]
    assert len(set(label_strata(labels, 3)[1])) == 2  # which can be looked up


@pytest.mark.parametrize("nothing", [None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT")])
def test_strata_of_several_columns_are_refused_where_a_part_is_missing(nothing):
    with pytest.raises(DataError, match="missing in row 1, which has"):
        check_strata([("x", 1), ("y", nothing), ("x", ("z", nothing))], 3)
    with pytest.raises(DataError, match="missing in row 2, which has"):
        check_strata([("x", 1), ("y", 1), ("x", ("z", nothing))], 3)


def test_a_table_of_labels_has_a_stratum_for_each_combination():
    table = pd.DataFrame({"site": ["a", "a", "b", "a"], "sex": [1, 2, 1, 1]})
    codes, labels = label_strata(table, 4)
    assert codes.tolist() == [0, 1, 2, 0]
    assert labels == [("a", 1), ("a", 2), ("b", 1)]
    with pytest.raises(DataError, match="missing in row 1, which has"):
        label_strata(table.assign(sex=[1, None, 1, 1]), 4)
    with pytest.raises(DataError, match="a column at least"):
        label_strata(table[[]], 4)
