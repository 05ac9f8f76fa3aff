"""Balance: cobalt's and MatchIt's numbers, tables of any kind, factors, squares and products."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy.stats import ks_2samp

import steropes
from steropes import DataError
from steropes.designs import EntropyBalancing, Matching, balance_table, covariate_balance


@pytest.fixture(scope="module")
def score(lalonde, lalonde_covariates):
    model = steropes.LogisticRegression().fit(lalonde_covariates, lalonde.treat)
    return model.predict_proba(lalonde_covariates)[:, 1]


@pytest.fixture(scope="module")
def treated(lalonde):
    return lalonde.treat.to_numpy() == 1


def of(table, name):
    return table.set_index("name").loc[name]


# cobalt 5.0.0 and MatchIt 4.7.2.
@pytest.mark.parametrize(
    ("settings", "smd"),
    [
        ({"estimand": "att"}, -0.309445262),
        ({"estimand": "ate"}, -0.2419036229),
        ({"estimand": "ato"}, -0.2419036229),
        ({"denominator": "all"}, -0.2240709315),
    ],
)
def test_differences_of_age_have_the_denominator_of_the_estimand(
    lalonde_covariates, treated, settings, smd
):
    table = balance_table(lalonde_covariates, treated, **settings)
    age = of(table, "age")
    assert age.smd_before == pytest.approx(smd, abs=5e-10)
    assert age.variance_ratio_before == pytest.approx(0.4399954634, abs=5e-11)
    assert age.ks_before == pytest.approx(0.1577269577, abs=5e-11)
    assert of(table, "race").smd_before == pytest.approx(1.7010781944, abs=5e-11)


def test_the_denominator_of_the_untreated_is_theirs(lalonde_covariates, treated):
    x = lalonde_covariates.age.to_numpy()
    expected = (x[treated].mean() - x[~treated].mean()) / x[~treated].std(ddof=1)
    for name in ("atu", "atc", "ATC"):
        table = balance_table(lalonde_covariates, treated, estimand=name)
        assert of(table, "age").smd_before == pytest.approx(expected, rel=1e-12)


def test_weights_change_means_and_not_denominators(lalonde_covariates, treated, score):
    e = score
    table = balance_table(
        lalonde_covariates, treated, np.where(treated, 1, e / (1 - e)), estimand="att"
    )
    age = of(table, "age")
    assert age.smd_after == pytest.approx(0.1188496061, abs=1e-8)
    assert age.variance_ratio_after == pytest.approx(0.4577536087, abs=1e-8)
    assert age.ks_after == pytest.approx(0.3078039029, abs=1e-8)
    everybody = balance_table(lalonde_covariates, treated, np.where(treated, 1 / e, 1 / (1 - e)))
    assert of(everybody, "age").smd_after == pytest.approx(-0.1675675864, abs=1e-8)
    overlap = balance_table(
        lalonde_covariates, treated, np.where(treated, 1 - e, e), estimand="ato"
    )
    assert overlap.smd_after.abs().max() < 1e-8


def test_covariate_balance_has_the_same_differences(lalonde_covariates, treated, score):
    numbers = lalonde_covariates.drop(columns="race")
    for estimand in ("ate", "att", "atu"):
        table = balance_table(numbers, treated, score, estimand=estimand).set_index("name")
        found = covariate_balance(numbers, treated, score, estimand=estimand).table
        found = found.set_index("name").loc[table.index]
        for column in ("smd_before", "smd_after", "target_mean_after"):
            np.testing.assert_allclose(found[column], table[column], rtol=1e-9, atol=1e-12)
    age = covariate_balance(numbers, treated, score, estimand=None).table.set_index("name")
    assert age.smd_before["age"] == pytest.approx(-0.242300, abs=5e-7)  # of R's CohortMethod


def test_binary_columns_have_p_times_one_minus_p(lalonde_covariates, treated):
    x = lalonde_covariates.married.to_numpy()
    p1, p0 = x[treated].mean(), x[~treated].mean()
    row = of(balance_table(lalonde_covariates, treated), "married")
    expected = (p1 - p0) / np.sqrt((p1 * (1 - p1) + p0 * (1 - p0)) / 2)
    assert row.smd_before == pytest.approx(expected, rel=1e-12)
    assert row.ks_before == pytest.approx(abs(p1 - p0), rel=1e-12)
    assert np.isnan(row.variance_ratio_before)
    assert row.kind == "binary"


def test_a_factor_is_listed_before_its_levels(lalonde_covariates, treated):
    table = balance_table(lalonde_covariates, treated)
    at = table.index[table.kind == "factor"][0]
    assert table.name[at : at + 4].tolist() == [
        "race", "race[black]", "race[hispan]", "race[white]",
    ]  # fmt: skip
    shares = table.target_mean_before[at + 1 : at + 4]
    assert shares.sum() == pytest.approx(1)


def test_a_factor_of_two_levels_has_the_difference_of_either(treated):
    label = np.where(np.arange(len(treated)) % 3 == 0, "yes", "no")
    table = balance_table(pd.DataFrame({"f": label}), treated)
    assert table.smd_before[0] == pytest.approx(abs(table.smd_before[1]), rel=1e-12)


def test_every_kind_of_table_gives_the_same_numbers(lalonde_covariates, treated, score):
    frame = lalonde_covariates.drop(columns="race").astype(float)
    expected = balance_table(frame, treated, score, squares=True, products=True)
    for X in (pl.from_pandas(frame), frame.to_numpy(), sp.csr_array(frame.to_numpy())):
        table = balance_table(X, treated, score, squares=True, products=True)
        np.testing.assert_allclose(
            table.drop(columns=["name", "kind"]), expected.drop(columns=["name", "kind"]),
            rtol=1e-9, atol=1e-12,
        )  # fmt: skip
    labels = balance_table(pl.from_pandas(lalonde_covariates), treated)
    pd.testing.assert_frame_equal(labels, balance_table(lalonde_covariates, treated))


def test_squares_and_products_are_columns_like_others(lalonde_covariates, treated, score):
    table = balance_table(lalonde_covariates, treated, score, squares=True, products=True)
    d = lalonde_covariates
    made = {"age²": d.age**2, "age × educ": d.age * d.educ}
    made |= {"age × race[white]": d.age * (d.race == "white")}
    made |= {"married × nodegree": d.married * d.nodegree}
    direct = balance_table(pd.DataFrame(made), treated, score)
    found = table.set_index("name").loc[direct.name].reset_index()
    pd.testing.assert_frame_equal(found, direct)
    assert not table.name.str.contains(r"race\[\w+\] × race").any()
    assert "married²" not in set(table.name)


def test_ks_is_the_largest_gap_of_distribution_functions(treated, score):
    x = np.round(score, 1)
    for X in (x[:, None], sp.csc_array(x[:, None])):
        table = balance_table(X, treated)
        expected = ks_2samp(x[treated], x[~treated]).statistic
        assert table.ks_before[0] == pytest.approx(expected, rel=1e-12)
    w = np.where(treated, 1.0, np.arange(len(treated)) % 3)
    repeated = np.repeat(x[~treated], w[~treated].astype(int))
    expected = ks_2samp(x[treated], repeated).statistic
    assert balance_table(x[:, None], treated, w).ks_after[0] == pytest.approx(expected, rel=1e-12)


def test_units_do_not_matter_and_large_values_keep_their_digits(treated, score):
    days = np.round(1000 * score)
    plain = balance_table(days[:, None], treated, score).drop(columns="name")
    for X in (1e3 * days, days + 2**30):
        other = balance_table(X[:, None], treated, score).drop(columns="name")
        columns = [c for c in plain if c.startswith(("smd", "variance", "ks"))]
        pd.testing.assert_frame_equal(other[columns], plain[columns], rtol=1e-8)


def test_where_one_group_has_no_spread_that_of_both_is_taken(treated):
    x = np.where(treated, 0.0, np.arange(len(treated)) % 2)
    table = balance_table(x[:, None], treated, estimand="att")
    p = x.mean()
    assert table.smd_before[0] == pytest.approx(-x[~treated].mean() / np.sqrt(p * (1 - p)))


def test_survey_weights_count_before_adjustment(treated, score):
    w = 1.0 + np.arange(len(treated)) % 2
    rows = np.repeat(np.arange(len(treated)), w.astype(int))
    weighted = balance_table(score[:, None], treated, before=w)
    repeated = balance_table(score[rows, None], treated[rows])
    for column in ("target_mean_before", "comparator_mean_before", "ks_before"):
        assert weighted[column][0] == pytest.approx(repeated[column][0], rel=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": [1.0, 1.0]}, "2 weights for 4"),
        ({"weights": [1.0, -1.0, 1.0, 1.0]}, "row 1 .* negative"),
        ({"weights": [1.0, np.nan, 1.0, 1.0]}, "row 1 .* missing"),
        ({"weights": [1.0, 0.0, 1.0, 0.0]}, "comparator group .* nobody"),
        ({"treatment": [1, 1, 1, 1]}, "comparator group"),
        ({"treatment": [0, 1, 0]}, "3 rows and X 4"),
        ({"estimand": "all"}, "estimand must be one of"),
        ({"denominator": "treated"}, "denominator must be one of"),
    ],
)
def test_what_cannot_be_compared_is_refused(change, message):
    arguments = {"X": np.eye(4), "treatment": [1, 0, 1, 0], "weights": None} | change
    with pytest.raises(DataError, match=message):
        balance_table(**arguments)


@pytest.mark.parametrize("code", [0, 1])
def test_a_group_without_people_is_named_with_the_remedy(code):
    X, treatment = pd.DataFrame({"x": [1.0, 2.0, 3.0]}), np.full(3, 1 - code)
    for call in (balance_table, Matching().fit, EntropyBalancing().fit):
        with pytest.raises(DataError, match=f"treatment is never {code}.* add its people"):
            call(X, treatment)
    with pytest.raises(DataError, match="not 2; select the rows of two groups"):
        Matching().fit(X, [0, 1, 2])


def test_a_column_that_is_constant_among_those_with_weight_has_no_difference(score, treated):
    inside = score < np.median(score)
    constant = {"zero": np.where(inside, 0.0, 1.0), "large": np.where(inside, 1e9 + 0.1, score)}
    table = balance_table(pd.DataFrame(constant), treated, score * inside, before=1.0 * inside)
    assert (table[["smd_before", "smd_after"]] == 0).all(axis=None)


@pytest.mark.parametrize("column", [lambda t: t, lambda t: ~t, lambda t: sp.csc_array(t[:, None])])
def test_the_treatment_is_no_covariate(treated, column):
    X = column(treated)
    X = X if sp.issparse(X) else pd.DataFrame({"drug": X, "one": 1.0})
    with pytest.raises(DataError, match=r"is the treatment itself; leave it out"):
        balance_table(X, treated)
