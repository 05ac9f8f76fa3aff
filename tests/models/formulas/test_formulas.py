"""Formulas: the same fits as from the matrices that they stand for, and what they refuse."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import steropes
from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    CumulativeProbabilityModel,
    DataError,
    FineGrayRegression,
    Laplace,
    LinearRegression,
    LogisticRegression,
    PoissonRegression,
    Surv,
)


def test_linear_model_with_interaction_and_labels(data):
    m = LinearRegression.from_formula("y ~ drug * age + C(`dose level`)", data)
    X = pd.DataFrame(
        {
            "drug": data["drug"],
            "age": data["age"],
            "b": data["dose level"] == "b",
            "c": data["dose level"] == "c",
            "both": data["drug"] * data["age"],
        }
    ).astype(float)
    other = LinearRegression().fit(X, data["y"])
    assert set(m.summary().index) == {
        "intercept", "drug", "age", "C(`dose level`)[T.b]", "C(`dose level`)[T.c]", "drug:age",
    }  # fmt: skip
    np.testing.assert_allclose(np.sort(m.coef_), np.sort(other.coef_), rtol=1e-6)
    assert m.intercept_ == pytest.approx(other.intercept_)
    np.testing.assert_allclose(m.predict(m.design_matrix(data)), other.predict(X), rtol=1e-8)


def test_survival_with_strata_offset_entry_and_weights(data):
    m = CoxRegression.from_formula(
        "Surv(time, dead, entry=start) ~ drug + strata(site, `dose level`) + offset(np.log(years))"
        " + offset(0.1 * age)",
        data, sample_weight="w", ties="breslow",
    )  # fmt: skip
    labels = list(zip(data["site"], data["dose level"], strict=True))
    strata = np.empty(len(data), object)
    strata[:] = labels
    offset = np.log(data["years"]) + 0.1 * data["age"]
    other = CoxRegression(ties="breslow").fit(
        data[["drug"]], Surv(data["time"], data["dead"], data["start"]),
        sample_weight=data["w"], strata=strata, offset=offset,
    )  # fmt: skip
    np.testing.assert_allclose(m.coef_, other.coef_, rtol=1e-9)
    new = data.head(7)
    ours = m.predict_survival(m.design_matrix(new), [2, 5], **m.design_vectors(new))
    theirs = other.predict_survival(new[["drug"]], [2, 5], strata=strata[:7], offset=offset.head(7))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert m.formula_.startswith("Surv(")


def _as_they_are(data):
    return data


def _polars(data):
    return pl.from_pandas(data)


@pytest.mark.parametrize("table", [_as_they_are, _polars, lambda d: pl.from_pandas(d).to_arrow()])
def test_a_table_of_data_stands_for_its_matrix_strata_and_offset(data, table):
    formula = (
        "Surv(time, code{}) ~ site + bs(age, df=4) + strata(`dose level`) + offset(log(years))"
    )
    new = table(data)
    cox = CoxRegression.from_formula(formula.format(" == 1"), data)
    X, more = cox.design_matrix(new), cox.design_vectors(new)
    y = Surv(data["time"], data["code"] == 1)
    pairs = [
        (cox.predict(new), cox.predict(X, offset=more["offset"])),
        (cox.predict_survival(new, [2, 5]), cox.predict_survival(X, [2, 5], **more)),
        (cox.curves.quantile(new, level=0.9), cox.curves.quantile(X, level=0.9, **more)),
        (cox.curves.survival(new, [3]), cox.curves.survival(X, [3], **more)),
        (cox.validation.concordance(new, y), cox.validation.concordance(X, y, **more)),
        (cox.score(new, y), cox.score(X, y, **more)),
        (
            cox.validation.time_dependent_auc(new, y, [5]),
            cox.validation.time_dependent_auc(X, y, [5], **more),
        ),
        (
            cox.curves.standardized_survival(new, [3]).survival,
            cox.curves.standardized_survival(X, [3], **more).survival,
        ),
    ]
    fg = FineGrayRegression.from_formula(formula.format(""), data)
    y = Surv(data["time"], data["code"])
    pairs += [
        (fg.predict_cumulative_incidence(new, 4), fg.predict_cumulative_incidence(X, 4, **more)),
        (fg.curves.incidence(new, [4]), fg.curves.incidence(X, [4], **more)),
        (fg.validation.concordance(new, y), fg.validation.concordance(X, y, **more)),
    ]
    for ours, theirs in pairs:
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("family", [PoissonRegression, CumulativeProbabilityModel])
def test_families_without_strata_take_a_table_of_data_too(data, family):
    m = family.from_formula("count ~ site + age + offset(log(years))", data)
    X, more = m.design_matrix(data), m.design_vectors(data)
    np.testing.assert_array_equal(m.predict(data), m.predict(X, **more))
    if family is PoissonRegression:
        assert m.score(data, data["count"]) == m.score(X, data["count"], **more)
    else:
        ours = m.checks.parallelism(data, data["count"], quantiles=[0.1, 0.5])
        theirs = m.checks.parallelism(X, data["count"], quantiles=[0.1, 0.5], **more)
        pd.testing.assert_frame_equal(ours.test, theirs.test)


@pytest.mark.parametrize("table", [_as_they_are, _polars])
def test_strata_and_offset_by_name_are_those_of_the_formula(data, table):
    """As R's predict.glm and predict.coxph, which add an offset given as an argument."""
    data = data.assign(small=np.arange(len(data)).astype(np.int8) % 3)
    new, times = table(data), [2, 5]
    inside = CoxRegression.from_formula(
        "Surv(time, dead) ~ age + strata(`dose level`) + offset(small)", data
    )
    named = CoxRegression.from_formula(
        "Surv(time, dead) ~ age", data, strata="dose level", offset="small"
    )
    np.testing.assert_array_equal(named.predict(new), inside.predict(new))
    np.testing.assert_array_equal(
        named.predict_survival(new, times), inside.predict_survival(new, times)
    )
    zero = np.zeros(len(data))
    np.testing.assert_array_equal(named.predict(new, offset=zero), data[["age"]] @ named.coef_)
    again = pickle.loads(pickle.dumps(named))
    np.testing.assert_array_equal(again.predict(new), inside.predict(new))
    with pytest.raises(DataError, match="no column 'small', which was the offset of the fit"):
        named.predict(data.drop(columns="small"))
    with pytest.raises(DataError, match="small is missing in row 5"):
        named.predict(data.assign(small=np.where(data.index == 5, np.nan, 1.0)))
    vector = PoissonRegression.from_formula("count ~ age", data, offset=data["years"])
    assert vector.design_vectors(data) == {}


def test_a_table_of_the_columns_of_x_alone_lacks_the_offset_and_the_strata(data):
    """Without a refusal their predictions would be those of the offset 0."""
    m = PoissonRegression.from_formula("count ~ age + offset(log(years))", data)
    X = data[["age"]]  # both the data and the result of design_matrix
    for rows in (X, X.assign(dose=1), m.design_matrix(data), pl.from_pandas(X)):
        for refused in (m.predict, lambda table: m.score(table, data["count"])):
            with pytest.raises(DataError, match=r"'years'.* or pass offset=.* zeros for none"):
                refused(rows)
    zero = np.zeros(len(data))
    np.testing.assert_array_equal(m.predict(X, offset=zero), m.predict(X.to_numpy()))
    own = PoissonRegression.from_formula("count ~ age + offset(0.1 * age)", data)
    np.testing.assert_array_equal(own.predict(X), own.predict(X, offset=0.1 * data["age"]))
    arrays = PoissonRegression().fit(X, data["count"], offset=np.log(data["years"]))
    np.testing.assert_array_equal(arrays.predict(X), arrays.predict(X, offset=zero))
    cox = CoxRegression.from_formula("Surv(time, dead) ~ age + strata(site)", data)
    assert len(cox.predict(X)) == len(data)
    y = Surv(data["time"], data["dead"])
    for refused in (lambda: cox.validation.concordance(X, y), lambda: cox.predict_survival(X, [2])):
        with pytest.raises(DataError, match=r"'site'.* or pass strata=… with an entry for each"):
            refused()
    assert cox.validation.concordance(X, y, strata=data["site"]) == cox.validation.concordance(
        data, y
    )


def test_a_column_does_not_replace_a_function_of_its_name(data):
    formula = (
        "Surv(time, dead) ~ C(site) + bs(age, df=4, upper_bound=90, lower_bound=10)"
        " + center(age):drug + np.exp(drug)"
        " + strata(`dose level`) + offset(log(years)) + cluster(site)"
    )
    names = ["C", "bs", "center", "np", "Surv", "strata", "offset", "log", "cluster", "exp"]
    more = data.assign(**dict.fromkeys(names, data["w"]))
    settings = {"sample_weight": "log"}  # named as an argument, a column is meant
    alone = CoxRegression.from_formula(formula, data, sample_weight="w")
    m = CoxRegression.from_formula(formula, more, **settings)
    np.testing.assert_array_equal(m.coef_, alone.coef_)
    np.testing.assert_array_equal(m.predict_survival(more, [3]), alone.predict_survival(data, [3]))
    np.testing.assert_array_equal(alone.predict(more), alone.predict(data))
    for both in ("y ~ C(site) + C", "y ~ C(site) + `C`"):
        with pytest.raises(DataError, match=r"Column 'C' has the name of a function.*rename"):
            LinearRegression.from_formula(both, more)
    column = LinearRegression.from_formula("y ~ C + age", data.assign(C=data["drug"]))
    assert column.coef_names_ == ["C", "age"]


def test_columns_that_the_formula_does_not_name_are_left_alone(data):
    m = LogisticRegression.from_formula("sick ~ age + drug", data)
    expected = m.predict_proba(data[["age", "drug"]])
    np.testing.assert_array_equal(m.predict_proba(data[["drug", "age"]]), expected)
    new = data.assign(site=None, other=np.nan)
    np.testing.assert_array_equal(m.predict_proba(new), expected)
    with pytest.raises(DataError, match="names 'drug', which is not a column"):
        m.predict_proba(data[["age", "site"]])
    alone = LogisticRegression.from_formula("sick ~ 1", data)
    assert np.unique(alone.predict_proba(data)[:, 1]).size == 1
    m.set_params(formula=None).fit(data[["age"]], data["sick"])  # of a matrix again
    with pytest.raises(DataError, match="site"):
        m.predict_proba(data)


def test_given_coefficients_go_with_a_formula(data):
    m = LinearRegression.from_formula("y ~ age + site", data, fixed={"age": 0.02})
    X = m.design_matrix(data)
    other = LinearRegression().fit(X, data["y"], fixed={"age": 0.02})
    np.testing.assert_array_equal(m.coef_, other.coef_)
    np.testing.assert_array_equal(m.predict(data), other.predict(X))
    again = LinearRegression.from_formula("y ~ age + site", data, start_at={"age": 0.02})
    np.testing.assert_allclose(again.coef_, LinearRegression().fit(X, data["y"]).coef_, rtol=1e-8)


def test_offsets_and_outcomes_know_the_functions_that_terms_know(data):
    settings = {"data": data, "sample_weight": "w"}
    short = CoxRegression.from_formula(
        "Surv(time, I(dead == 1)) ~ log(age) + offset(log(years))", **settings
    )
    long = CoxRegression.from_formula(
        "Surv(time, dead == 1) ~ np.log(age) + offset(np.log(years))", **settings
    )
    np.testing.assert_array_equal(short.coef_, long.coef_)
    new = short.design_vectors(data.head(3))
    np.testing.assert_array_equal(new["offset"], np.log(data["years"].head(3)))


def test_messages_have_no_colours_of_a_terminal(data):
    with pytest.raises(DataError, match="cannot be evaluated") as caught:
        LinearRegression.from_formula("y ~ drug +", data)
    assert "\x1b" not in str(caught.value)


def test_splines_keep_their_knots_for_new_people(data):
    m = LogisticRegression.from_formula("sick ~ bs(age, df=4) + poly(years, 2)", data)
    assert m.coef_.shape == (6,)
    few = data.iloc[[3, 50]]
    np.testing.assert_allclose(
        m.predict_proba(m.design_matrix(few)), m.predict_proba(m.design_matrix(data))[[3, 50]]
    )
    again = pickle.loads(pickle.dumps(m))
    pd.testing.assert_frame_equal(again.design_matrix(few), m.design_matrix(few))


@pytest.mark.sampled
@pytest.mark.parametrize("table", [lambda d: d, pl.from_pandas], ids=["pandas", "polars"])
@pytest.mark.parametrize("by", ["drug", "site"])
def test_standardising_a_table_gives_everyone_the_value_in_all_terms(data, table, by):
    text = "Surv(time, dead) ~ drug * age + C(site) * drug + offset(0.1 * drug)"
    m = CoxRegression.from_formula(text, data)
    everyone = {value: data.assign(**{by: value}) for value in sorted(data[by].unique())}
    expected = [
        m.curves.standardized_survival(m.design_matrix(d), [2, 4], offset=0.1 * d["drug"]).survival
        for d in everyone.values()
    ]
    found = m.curves.standardized_survival(table(data), [2, 4], by=by)
    assert found.survival[by].unique().tolist() == list(everyone)
    columns = ["survival", "se", "lower", "upper"]
    np.testing.assert_allclose(found.survival[columns], pd.concat(expected)[columns], rtol=1e-12)
    place = m.curves.standardized_survival(table(data), [2, 4], by=list(data.columns).index(by))
    pd.testing.assert_frame_equal(place.differences, found.differences)


def test_what_a_table_is_standardised_by_is_one_of_its_columns_in_the_formula(data):
    m = CoxRegression.from_formula("Surv(time, dead) ~ drug * age", data)
    others = {
        len(data.columns): "name or position",
        list(data.columns).index("site"): "'site'.* not in the formula",
        "site": "no coefficient 'site'",
        "age": "too many",
    }
    for by, words in others.items():
        with pytest.raises(DataError, match=words):
            m.curves.standardized_survival(data, [2], by=by)


@pytest.mark.parametrize("table", [pl.from_pandas, lambda d: pl.from_pandas(d).to_arrow()])
def test_other_tables(data, table):
    one = FineGrayRegression.from_formula("Surv(time, code) ~ drug + site", data, cause=2)
    two = FineGrayRegression.from_formula("Surv(time, code) ~ drug + site", table(data), cause=2)
    np.testing.assert_array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize("kind", ["string", "string[pyarrow]", "category"])
def test_text_of_any_type_is_a_label(data, kind):
    expected = LinearRegression.from_formula("y ~ site", data)
    m = LinearRegression.from_formula("y ~ site", data.astype({"site": kind}))
    pd.testing.assert_frame_equal(m.summary(), expected.summary())
    new = data[:5].astype({"site": kind})
    np.testing.assert_array_equal(m.design_matrix(new), expected.design_matrix(data[:5]))


def test_no_intercept_a_dot_and_settings(data):
    m = PoissonRegression.from_formula(
        "count ~ C(site) + age - 1", data, exposure="years", prior=Laplace(1.0)
    )
    assert m.intercept_ == 0.0
    assert clone(m).fit(data, exposure="years").coef_.tolist() == m.coef_.tolist()
    assert m.prior_.variance == 1.0
    assert len(m.coef_) == 4
    some = data[["y", "drug", "age", "years"]]
    dotted = LinearRegression.from_formula("y ~ . + offset(np.log(years))", some)
    assert list(dotted.summary().index) == ["intercept", "drug", "age"]
    sets = ConditionalLogisticRegression.from_formula(
        "(code > 0) * 1 ~ drug + age", data, strata="site"
    )
    assert sets.coef_.shape == (2,)


def test_a_second_fit_is_of_a_matrix_again(data):
    m = CoxRegression.from_formula("Surv(time, dead) ~ drug", data)
    assert "drug" in str(m)
    m.set_params(formula=None).fit(data[["age"]], Surv(data["time"], data["dead"]))
    assert "Formula" not in str(m)
    with pytest.raises(DataError, match="not fitted from a formula"):
        m.design_matrix(data)
    assert not hasattr(clone(m), "formula_")


def test_the_data_are_left_alone_and_not_kept(data):
    mine = data.copy()
    m = LinearRegression.from_formula("y ~ bs(age, df=3)", mine)
    pd.testing.assert_frame_equal(mine, data)
    expected = m.design_matrix(data)
    mine["age"] = 0.0
    pd.testing.assert_frame_equal(m.design_matrix(data), expected)


def test_codings_need_no_call(data):
    named = CoxRegression.from_formula("Surv(time, dead) ~ C(site, contr.sum)", data)
    called = CoxRegression.from_formula("Surv(time, dead) ~ C(site, contr.sum())", data)
    np.testing.assert_array_equal(named.coef_, called.coef_)


def test_an_outcome_may_have_a_dot_in_its_name(data):
    table = data.rename(columns={"y": "y.new"})
    model = LinearRegression.from_formula("y.new ~ age", table)
    np.testing.assert_array_equal(model.coef_, LinearRegression.from_formula("y ~ age", data).coef_)


def test_quoted_names_may_look_like_functions(data):
    table = data.assign(**{"ns (mg)": data["years"]})
    assert CoxRegression.from_formula("Surv(time, dead) ~ `ns (mg)`", table).converged_


def test_labels_that_no_row_has_are_left_out(data):
    kinds = pd.Categorical(np.where(data["age"] > 50, "old", "young"), ["none", "young", "old"])
    m = LinearRegression.from_formula("y ~ kind", data.assign(kind=kinds))
    assert list(m.summary().index) == ["intercept", "kind[T.old]"]
    new = data.head(3).assign(kind=pd.Categorical(["old", "young", "old"], kinds.categories))
    assert m.design_matrix(new)["kind[T.old]"].tolist() == [1, 0, 1]


def test_labels_that_the_fit_has_not_seen_are_refused(data):
    m = LinearRegression.from_formula("y ~ C(site) + age", data)
    with pytest.raises(
        DataError, match="Column 'site' has the level 'east' in row 1, which the fit"
    ):
        m.design_matrix(data.head(2).assign(site=["north", "east"]))
    with pytest.raises(DataError, match="table"):
        LinearRegression.from_formula("y ~ x", {"y": [1], "x": [2]})


def test_the_module_is_an_extra():
    assert "formulaic" not in steropes.__dict__
