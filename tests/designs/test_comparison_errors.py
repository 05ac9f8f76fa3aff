"""Comparisons of groups refuse unusable tables, and name the column and the remedy."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression as LogisticModel

from steropes import DataError, LinearRegression, LogisticRegression, compare_groups
from steropes.designs import EntropyBalancing, Matching

COVARIATES = ["age", "educ", "race", "married", "nodegree", "re74", "re75"]


NAMES = {"treatment": "treat", "outcome": "re78", "covariates": COVARIATES}


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({"treat": 1}, {}, "'treat' has 1 value .* add the other group"),
        ({"treat": ["a", "b"] * 307}, {}, "say which of them .* target='b'"),
        ({"treat": [0, 1, 2, 1] * 153 + [0, 1]}, {}, "has 3 values .* select the rows"),
        ({}, {"covariates": ["age", "treat"]}, "'treat' is the treatment itself"),
        ({}, {"covariates": ["age", "re78"]}, "'re78' is the outcome itself"),
        ({}, {"covariates": ["age", "agee"]}, "data has no column 'agee'"),
        ({}, {"covariates": ["age", "age"]}, "'age' more than once"),
        ({}, {"covariates": []}, "covariates is empty"),
        ({"copy": lambda d: 3 - d.treat}, {"covariates": ["copy"]}, "'copy' has one value in each"),
        ({"copy": lambda d: d.re78}, {"covariates": ["copy"]}, "'copy' equals the outcome"),
        ({"re78": 1.0}, {}, "'re78' is the same for everybody"),
        ({"re78": np.nan}, {}, "'re78' is missing in 614 rows"),
        ({}, {"adjust": "matching"}, "Set estimand='ATT' or 'ATC'"),
        ({}, {"adjust": "magic"}, "adjust must be one of 'matching'"),
        ({}, {"outcome": None, "time": "age"}, "Give outcome="),
        ({}, {"outcome": None, "time": "late", "event": "treat2"}, "'late' is negative in row 0"),
        ({}, {"outcome": None, "time": "re78", "event": "wrong"}, "must be 0 .censored., 1"),
        ({"none": 0.0}, {"outcome": None, "time": "none", "event": "treat2"}, "'none' is 0 for"),
        (
            {},
            {
                "outcome": None,
                "time": "age",
                "event": "nodegree",
                "entry": "late",
                "covariates": ["educ"],
            },
            "entry 'late' is negative in row 0",
        ),
        ({}, {"outcome": "treat"}, "outcome 'treat' is the treatment itself"),
        ({"re78": np.inf}, {}, "'re78' is infinite in row 0 .* leave the row out"),
        ({}, {"id": "re74"}, "'re74' is the id itself"),
        ({"person": 7}, {"id": "person"}, "'person' is repeated: row 1"),
        ({}, {"interactions": True}, "interactions is for adjust='standardization'"),
        ({}, {"adjust": "standardization", "interactions": "age"}, "interactions must be a list"),
        ({}, {"adjust": "standardization", "interactions": 1}, "interactions must be a list"),
        ({}, {"horizon": 3}, "horizon is for time="),
        ({}, {"horizon": "5"}, "horizon must be a time above 0, not '5'"),
        ({}, {"horizon": True}, "horizon must be a time above 0, not True"),
        ({}, {"ties": "breslow"}, "ties is for time="),
        ({}, {"random_state": 3}, "seed of the bootstrap; leave it out"),
        ({}, {"treatment": ["treat"]}, "treatment must be the name of a column"),
        ({}, {"outcome": ["re78"]}, "outcome must be the name of a column"),
        ({}, {"adjust": None}, "adjust must be one of 'matching'"),
        ({}, {"adjust": {"weights": 1}}, "adjust must be one of 'matching'"),
        ({}, {"adjust": Matching}, "adjust must be one of 'matching'"),
        ({}, {"model": LogisticModel()}, "LogisticRegression cannot be used: X has .* 'race'"),
        ({}, {"model": "logit"}, "model must be an unfitted estimator, .* not 'logit'"),
        ({}, {"model": LinearRegression()}, "LinearRegression cannot be used"),
        ({}, {"model": LogisticRegression(), "adjust": "entropy"}, "model is for 'matching'"),
        ({}, {"random_state": 1.5}, "random_state must be a whole number of 0"),
        ({}, {"level": "95 %"}, "level must be between 0 and 1"),
        ({}, {"bootstrap": 1}, "bootstrap must be 0 or a number of draws"),
        ({}, {"estimand": "ATO", "adjust": "standardization"}, "estimand is 'ATE', 'ATT'"),
        ({}, {"estimand": "ATO", "adjust": "entropy"}, "entropy: estimand must be one of"),
        (
            {"age": lambda d: d.age.where(d.index > 2)},
            {"missing": "indicator"},
            "'age' is missing in one of the groups only",
        ),
        (
            {"age": lambda d: d.age.where(d.index % 9 > 0), "age missing": 1.0},
            {"covariates": ["age", "age missing"], "missing": "indicator"},
            "'age missing' has the name of the indicator",
        ),
        (
            {"race": lambda d: d.race.where(d.index % 9 > 0).replace("white", "(missing)")},
            {"missing": "indicator"},
            "'race' has the label '.missing.' and missing values",
        ),
        ({"one": 1.0}, {"covariates": ["age", "one"]}, "are constant .* 'one'"),
        ({}, {"adjust": EntropyBalancing(estimand="att")}, "has estimand='att'"),
        ({"apart": lambda d: d.age + 100 * d.treat}, {"covariates": ["apart"]}, "do not overlap"),
    ],
)
def test_bad_input_names_the_column_and_the_remedy(lalonde, change, arguments, message):
    table = lalonde.assign(late=-1.0, treat2=lalonde.treat, wrong=lalonde.educ).assign(**change)
    with pytest.raises(DataError, match=message):
        compare_groups(table, **{**NAMES, **arguments})


def test_missing_indicators_are_not_for_a_long_table(lalonde):
    long = pd.DataFrame({"id": lalonde.index, "covariate": "age", "value": lalonde.age})
    names = NAMES | {"covariates": long, "id": "id", "missing": "indicator"}
    with pytest.raises(DataError, match="a long table and Covariates have no missing values"):
        compare_groups(lalonde.assign(id=lalonde.index), **names)


def test_repeated_entries_of_a_long_table_are_refused(lalonde):
    table = lalonde.assign(person=np.arange(614))
    long = pd.DataFrame({"person": [5, 5], "covariate": ["x", "x"]})
    names = {"treatment": "treat", "outcome": "re78", "id": "person"}
    with pytest.raises(DataError, match=r"Row 1 .* repeats the 'person' and 'covariate'"):
        compare_groups(table, **names, covariates=long)
    with pytest.raises(DataError, match="not in data"):
        compare_groups(table, **names, covariates=long.assign(person=[5, 999]))
