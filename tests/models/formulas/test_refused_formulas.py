"""Formulas that are refused, and labels that a fit has not seen."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

import steropes
from steropes import (
    CoxRegression,
    DataError,
    LinearRegression,
    LogisticRegression,
    Normal,
)


@pytest.mark.parametrize(
    ("formula", "more", "words"),
    [
        ("y", {}, "formula must be text with one"),
        ("~ drug", {}, "no outcome"),
        ("y ~ drugs", {}, "'drugs', which is not a column .* mean 'drug'"),
        ("Surv(start, time, dead) ~ drug", {}, "say Surv\\(stop, event, entry=start\\)"),
        ("Surv(time, dead) ~ drug - 1", {}, "no intercept to leave out"),
        ("Surv(time, dead) ~ drug:strata(site)", {}, "terms of their own"),
        ("Surv(time, dead) ~ strata(site) + strata(drug) + age", {}, "strata\\(\\) twice"),
        ("Surv(time, dead) ~ age + strata(site)", {"strata": "drug"}, "give it once"),
        ("Surv(time, dead) ~ age", {"sample_weight": "weight"}, "not a column"),
        ("Surv(time, missing) ~ age", {}, "row 5 is nan"),
        ("Surv(time, dead) ~ missing", {}, "missing is missing in row 5: drop"),
        ("Surv(time, dead) ~ np.log(missing)", {}, r"np.log\(missing\) is missing in row 5"),
        ("Surv(time, dead) ~ C(missing)", {}, r"C\(missing\) is missing in row 5"),
        ("Surv(time, dead) ~ age:bs(missing, df=4)", {}, "row 5, because column 'missing' is"),
        ("Surv(time, dead) ~ poly(missing, 2)", {}, r"poly\(missing, 2\) is missing in row 5"),
        ("Surv(time.days, dead) ~ age", {"trusted": True}, "cannot be evaluated.*days"),
        ("Surv(time, dead) ~ age + offset(1 / 0)", {}, "cannot be evaluated.*division by zero"),
        ("Surv(time['a'], dead) ~ age", {"trusted": True}, "cannot be evaluated: 'a'"),
        ("Surv(time, dead) ~ age + strata(missing)", {}, r"missing\) is missing in row 5"),
        ("Surv(time, dead) ~ age + strata(site, missing)", {}, "strata is missing in row 5"),
        ("Surv(time, dead) ~ age + strata(blank)", {}, "strata is missing in row 5"),
        ("Surv(time, dead) ~ age + blank", {}, "Column 'blank' is blank in row 5"),
        ("Surv(time, dead) ~ age + C(blank)", {}, "Column 'blank' is blank in row 5"),
        ("Surv(time, dead) ~ age + digits", {}, "'digits' has numbers as text"),
        ("Surv(time, dead) ~ age + same", {}, "same has a single level"),
        ("Surv(time, dead) ~ age + center", {}, "'center', which is not a column of the data"),
        ("Surv(time, dead) ~ age + Intercept", {}, "'Intercept' is the intercept in formulas"),
        ("Surv(time, dead) ~ age | site", {}, "one right-hand side"),
        ("Surv(time, dead) ~ age + frailty(site)", {}, "no frailty.. here.*Normal prior"),
        ("Surv(time, dead) ~ I(age^2)", {}, r"\^ in age \^ 2 is not a power.*write \*\*"),
        ("Surv(time, dead) ~ exp(age / 10^2)", {"trusted": True}, "is not a power"),
        ("Surv(time, dead) ~ as.factor(site)", {}, "no as.factor.. here.*C\\(x\\)"),
        ("Surv(time, dead) ~ cbrt(age)", {}, r"Write np.cbrt\(\) for cbrt"),
        ("Surv(time, dead) ~ rcs(age, c(40, 60))", {}, r"no c\(\) here. A list is \[40, 60\]"),
        ("Surv(time, dead) ~ I(age > 50 & drug == 1)", {}, r"\(age > 50\) & \(sex == 1\)"),
        ("Surv(time, dead) ~ drug == 1", {}, r"go into I\(\)"),
        ("Surv(time, dead) ~ poly(age, 2, raw=TRUE)", {}, "Python's is True"),
        ("Surv(time, dead) ~ log(dose.mg)", {}, "`dose.mg` in backticks"),
        ("Surv(time, code) ~ age", {}, "FineGrayRegression"),
        ("Surv(time, dead + 1) ~ age", {}, r"2 the event, as R's Surv takes it, pass event == 2"),
        ("Surv(time, dead) ~ age + day", {}, "Column 'day' holds dates"),
        ("Surv(time, dead) ~ age * `last day`", {}, "Column 'last day' holds dates"),
    ],
)
def test_refusals(data, formula, more, words):
    table = data.assign(missing=np.where(data.index == 5, np.nan, 1.0))
    table["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(data.index, "D")
    table["last day"] = table["day"].dt.date
    table["blank"] = np.where(data.index == 5, "", "yes")
    table["digits"] = np.where(data.index % 2 == 0, "1", "2")
    table = table.assign(same="yes", Intercept=data["age"], **{"dose.mg": data["age"]})
    with pytest.raises(DataError, match=words):
        CoxRegression.from_formula(formula, table, **more)


def test_a_query_that_has_not_been_run_is_told_so(data):
    table = pl.DataFrame({"y": data["y"].to_numpy(), "x": data["age"].to_numpy()})
    m = LinearRegression.from_formula("y ~ x", table)
    X = table.select("x")
    calls = {
        "data": lambda q: LinearRegression.from_formula("y ~ x", q),
        "data is": lambda q: m.design_matrix(q),
        "outcomes": lambda q: steropes.fit_many(LinearRegression(), X, q.select("y")),
        "cluster": lambda q: m.vcov("robust", cluster=q.select("x")),
    }
    for what, call in calls.items():
        with pytest.raises(DataError, match=rf"{what}.* that has not been run; collect\(\) it"):
            call(table.lazy())


@pytest.mark.parametrize("label", ["C(age)", "name", "x:C(age)"])
def test_labels_of_single_people_are_refused_without_their_values(label):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({
        "y": rng.integers(0, 2, 60), "x": rng.normal(size=60), "age": rng.normal(50, 9, 60),
        "name": [f"Person {i}" for i in range(60)],
    })  # fmt: skip
    with pytest.raises(DataError, match="60 different labels in 60 rows") as refused:
        LogisticRegression.from_formula(f"y ~ {label}", data)
    assert "Person" not in str(refused.value)
    assert not re.search(r"\d\d\.", str(refused.value))
    named = data.assign(name=data["name"].astype("category"), age=data["age"].astype("category"))
    fit = LogisticRegression.from_formula(f"y ~ {label}", named, prior=Normal(1.0))
    assert len(fit.coef_) >= 59
