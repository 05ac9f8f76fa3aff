"""Tables with columns of categories, text and booleans, in fits and predictions of all families."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.model_selection import cross_val_score

from every_family import EVERY, case
from steropes import (
    CoxRegression,
    CrossValidation,
    DataError,
    GroupLaplace,
    Laplace,
    LinearRegression,
    LogisticRegression,
    MultinomialLogisticRegression,
    Normal,
    ShardedDesign,
    Surv,
    as_design,
    coefficient_path,
    fit_many,
    validate_by_group,
)
from steropes.design_matrix.column_storage import SparseBlock

NAMES = ["age", "site[T.b]", "site[T.c]", "smoker", "drug[T.low]"]


@pytest.fixture
def people(rng):
    n = 240
    return pd.DataFrame(
        {
            "age": rng.normal(60, 9, n),
            "site": pd.Categorical(rng.choice(list("abc"), n), ["a", "b", "unused", "c"]),
            "smoker": rng.random(n) < 0.4,
            "drug": rng.choice(["low", "high"], n),
        }
    )


@pytest.fixture
def y(people, rng):
    eta = (people["site"] == "b") * 1.0 - (people["drug"] == "low") + (people["age"] - 60) / 20
    return (rng.random(len(people)) < 1 / (1 + np.exp(-eta))).astype(int)


def coded(people):
    """The same columns by pandas, with the names of formulas."""
    frame = people.assign(site=people["site"].cat.remove_unused_categories())
    table = pd.get_dummies(frame, drop_first=True, dtype=float)
    table.columns = [c.replace("_", "[T.") + "]" if "_" in c else c for c in table.columns]
    return table[NAMES].astype(float)


@pytest.mark.sampled
@pytest.mark.parametrize("family", EVERY)
def test_every_family_codes_labels_as_dummies(family, rng):
    made = case(family, rng)
    table = pd.DataFrame(made.X, columns=list("abcde"))
    cut = np.array(["x", "y", "z"])[np.digitize(table["c"], np.quantile(table["c"], [0.3, 0.7]))]
    labels = table.assign(c=cut)
    dummies = table.drop(columns="c")
    for k, level in enumerate("yz"):
        dummies.insert(2 + k, f"c[T.{level}]", (cut == level) * 1.0)
    found, expected = made.fit(labels), made.fit(dummies)
    assert found.coef_names_ == expected.coef_names_
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6, atol=1e-8)
    if "change" not in family and "step" not in family:  # which have no single linear predictor
        np.testing.assert_allclose(
            found.linear_predictor(labels), expected.linear_predictor(dummies), atol=1e-6
        )
    assert found.feature_names_in_.tolist() == list("abcde")
    assert found.n_features_in_ == 5
    assert found.converged_


def test_a_formula_gives_the_same_coefficients_under_the_same_names(people, y):
    model = LogisticRegression().fit(people, y)
    formula = LogisticRegression.from_formula("y ~ age + site + smoker + drug", people.assign(y=y))
    assert model.coef_names_ == formula.coef_names_ == NAMES
    assert model.summary().index.tolist() == ["intercept", *NAMES]
    np.testing.assert_allclose(model.coef_, formula.coef_, atol=1e-8)
    np.testing.assert_allclose(model.vcov(), formula.vcov(), rtol=1e-7, atol=1e-9)


def test_labels_are_stored_as_row_numbers(people):
    design = as_design(people)
    kinds = [type(block) is SparseBlock and not len(block.data) for block in design.blocks]
    sizes = [block.p for block in design.blocks]
    assert (kinds, sizes) == ([False, True, False, True], [1, 2, 1, 1])
    assert design.names == NAMES


@pytest.mark.parametrize(
    ("column", "levels"),
    [
        (pd.Categorical(["m", "a", "z"], ["z", "m", "a"]), ["m", "a"]),
        (pd.Categorical(["m", "a", "z"], ["z", "m", "a"], ordered=True), ["m", "a"]),
        (pd.Categorical([3, 20, 100]), ["20", "100"]),
        (pd.cut([1, 2, 3], 3), ["(1.667, 2.333]", "(2.333, 3.0]"]),
        (pd.Series(["m", "a", "z"], dtype="string"), ["m", "z"]),
        (np.array(["m", "a", "z"], object), ["m", "z"]),
        (pl.Series(["m", "a", "z"], dtype=pl.Enum(["z", "y", "m", "a"])), ["m", "a"]),
        (pl.Series(["m", "a", "z"], dtype=pl.Categorical), ["m", "z"]),
        (pl.Series(["m", "a", "z"]), ["m", "z"]),
        (pa.array(["m", "a", "z"]).dictionary_encode(), ["m", "z"]),
        (pa.array(["m", "a", "z"]), ["m", "z"]),
    ],
)  # fmt: skip
def test_the_first_level_is_the_reference_in_the_order_of_categories_or_sorted(column, levels):
    if isinstance(column, pl.Series):
        table = pl.DataFrame({"g": column})
    elif isinstance(column, pa.Array):
        table = pa.table({"g": column})
    else:
        table = pd.DataFrame({"g": column})
    assert as_design(table).names == [f"g[T.{level}]" for level in levels]


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["b", "a", "c"])])
def test_formulas_and_tables_of_polars_have_the_same_reference(kind, rng):
    labels = rng.choice(list("cab"), 60).tolist()
    data = pl.DataFrame({"y": rng.normal(size=60), "g": pl.Series(labels, dtype=kind)})
    formula = LinearRegression.from_formula("y ~ g", data)
    assert formula.coef_names_ == LinearRegression().fit(data[["g"]], data["y"]).coef_names_


def test_new_rows_are_coded_by_the_levels_of_the_fit(people, y):
    model = LogisticRegression().fit(people, y)
    expected = LogisticRegression().fit(coded(people), y).predict_proba(coded(people))
    new = people.iloc[[7, 3]]
    forms = [
        new,
        new.assign(site=new["site"].cat.remove_unused_categories()),
        new.astype({"site": object}),
        new.astype({"drug": "category"}),
        pl.DataFrame(new.astype({"site": str})),
    ]
    for form in forms:
        np.testing.assert_allclose(model.predict_proba(form), expected[[7, 3]], atol=1e-8)
    np.testing.assert_allclose(model.predict_proba(coded(people)), expected, atol=1e-8)
    np.testing.assert_allclose(model.predict_proba(coded(people).to_numpy()), expected, atol=1e-8)


def test_new_levels_and_missing_values_are_refused_by_name(people, y):
    model = LogisticRegression().fit(people, y)
    for changed, message in (
        (people.assign(drug="none"), "Column 'drug' has the level 'none' in row 0"),
        (people.assign(site="unused"), "'site' has the level 'unused'"),
        (people.assign(drug=[None, *people["drug"][1:]]), "column 'drug', row 0 is missing"),
        (people.assign(age="old"), "Column 'age' holds String"),
        (people[["site", "age", "smoker", "drug"]], "column 0 was 'age' and is 'site'"),
        (people.drop(columns="drug"), "X has 3 features, but .* expecting 4"),
    ):
        with pytest.raises(DataError, match=message):
            model.predict(changed)
    for changed, message in (
        (people.assign(drug=[None, *people["drug"][1:]]), "column 'drug', row 0 is missing"),
        (people.assign(site=people["site"].where(people["site"] != "a")), "column 'site', row"),
        (people.assign(drug="all"), "single level 'all'"),
        (people.assign(drug=["x", " ", *["y"] * 238]), "Column 'drug' is blank in row 1"),
        (people.assign(drug=[f"{k % 3}.5" for k in range(240)]), "'drug' has numbers as text"),
        (people.assign(drug=[f"p{k}" for k in range(240)]), "240 different texts in 240 rows"),
        (people.assign(**{"drug[T.low]": 0.5}), r"more than one column named 'drug\[T.low\]'"),
    ):
        with pytest.raises(DataError, match=message):
            LogisticRegression().fit(changed, y)
    with pytest.raises(DataError, match="Column 'g' holds String, not numbers"):
        LinearRegression().fit(np.ones((3, 1)) * [[1], [2], [4]], [1.0, 2.0, 0.0]).predict(
            pd.DataFrame({"g": ["a", "b", "c"]})
        )


def test_numbers_and_identifiers_that_are_categories_are_accepted(people, y):
    number = people.assign(drug=pd.Categorical([str(k % 3) for k in range(240)]))
    assert LogisticRegression().fit(number, y).coef_names_[-2:] == ["drug[T.1]", "drug[T.2]"]


def test_multinomial_models_have_a_row_of_coefficients_for_each_class(people, rng):
    classes = rng.choice(list("uvw"), len(people))
    model = MultinomialLogisticRegression(prior=Normal()).fit(people, classes)
    expected = MultinomialLogisticRegression(prior=Normal()).fit(coded(people), classes)
    assert model.coef_names_ == NAMES
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-7)
    np.testing.assert_allclose(
        model.predict_proba(people), expected.predict_proba(coded(people)), atol=1e-7
    )


def test_tables_are_not_modified(people, y):
    before = people.copy()
    LogisticRegression().fit(people, y).predict(people)
    pd.testing.assert_frame_equal(people, before)


def test_a_fit_does_not_change_with_its_table(people, y):
    table = people.copy()
    model = LogisticRegression().fit(table, y)
    expected = model.vcov("robust").copy()
    table["drug"], table["age"] = "low", 0.0
    np.testing.assert_array_equal(model.vcov("robust"), expected)


def test_fixed_coefficients_and_priors_name_levels(people, y):
    dummies = coded(people)
    for settings, extras in (
        ({"prior": Normal(0.5, exclude=["site[T.b]", "age"])}, {}),
        ({"prior": Laplace(0.5, exclude=["drug[T.low]"])}, {"fixed": {"site[T.c]": 0.3}}),
        ({"prior": Laplace(), "cv": CrossValidation(3, random_state=1)}, {"fixed": {0: 0.01}}),
        ({"prior": GroupLaplace({"site[T.b]": "s", "site[T.c]": "s"}, variance=0.5)}, {}),
    ):
        found = LogisticRegression(**settings).fit(people, y, **extras)
        expected = LogisticRegression(**settings).fit(dummies, y, **extras)
        np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-7)
        np.testing.assert_allclose(
            found.linear_predictor(people), expected.linear_predictor(dummies), atol=1e-6
        )
        assert found.converged_
    with pytest.raises(DataError, match=r"column of labels, whose coefficients are 'site\[T.b\]'"):
        LogisticRegression().fit(people, y, fixed={"site": 0.0})


@pytest.mark.parametrize(
    "prior",
    [
        Normal(variance={"site": 1.0, "age": 1.0}),
        Laplace(1.0, lower={"site": -1.0}),
        GroupLaplace({"site": "a", "age": "b"}, 1.0),
    ],
    ids=str,
)
def test_settings_by_name_point_to_the_names_of_levels(prior, people, y):
    words = r"names 'site', a column of labels, whose coefficients are 'site\[T.b\]'"
    with pytest.raises(DataError, match=words):
        LogisticRegression(prior=prior).fit(people, y)


def test_inference_is_that_of_the_dummies(people, y):
    found, expected = (
        LogisticRegression().fit(people, y),
        LogisticRegression().fit(coded(people), y),
    )
    for method in ("wald", "robust", "profile"):
        pd.testing.assert_frame_equal(
            found.confint(method=method), expected.confint(method=method), rtol=1e-5
        )
    draws = [m.inference.bootstrap(20, random_state=1).coef for m in (found, expected)]
    np.testing.assert_allclose(*draws, atol=2e-3)  # draws have a coarser tolerance
    assert found.inference.term_tests().loc[("site", "all"), "df"] == 2
    effects = found.effects.average(people)
    assert effects.index.tolist() == ["age", "site[b]", "site[c]", "smoker", "drug[low]"]
    p = [found.predict_proba(people.assign(drug=k))[:, 1].mean() for k in ("low", "high")]
    assert effects.loc["drug[low]", "effect"] == pytest.approx(p[0] - p[1], rel=1e-10)


def test_standardized_curves_set_a_column_of_labels(people, y, rng):
    times = Surv(rng.exponential(1, len(y)), y)
    model = CoxRegression().fit(people, times)
    given = {site: people.assign(site=site) for site in "abc"}
    found = model.curves.standardized_survival(people, [0.3], by="site")
    expected = model.curves.standardized_survival(people, [0.3], by=given)
    np.testing.assert_allclose(found.survival["survival"], expected.survival["survival"])
    np.testing.assert_allclose(
        model.curves.standardized_survival(people, [0.3], by=1).survival["survival"],
        expected.survival["survival"],
    )
    with pytest.raises(DataError, match="by must be the name or position of one of the 4 columns"):
        model.curves.standardized_survival(people, [0.3], by=4)


def test_labels_may_have_effects_by_step(people, y, rng):
    times = Surv(rng.exponential(1, len(y)), y)
    settings = {"time_varying": {"site[T.b]": [0.4]}}
    found = CoxRegression(**settings).fit(people, times)
    expected = CoxRegression(**settings).fit(coded(people), times)
    assert found.coef_names_ == expected.coef_names_
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-7)


def test_many_outcomes_paths_and_groups(people, y):
    model = LogisticRegression(prior=Laplace(0.3))
    table = fit_many(model, people, {"y": y, "not": 1 - y})
    alone = model.fit(people, y)
    np.testing.assert_allclose(table["coef"][:6], alone.summary()["coef"], atol=1e-7)
    path = coefficient_path(model, people, y, [0.3])
    assert path.columns.tolist() == NAMES
    np.testing.assert_allclose(path.iloc[0], alone.coef_, atol=1e-8)
    groups = np.arange(240) % 3
    pd.testing.assert_frame_equal(
        validate_by_group(LogisticRegression(), people, y, groups),
        validate_by_group(LogisticRegression(), coded(people), y, groups),
        rtol=1e-6,
    )


def test_copies_and_pickles_keep_the_levels(people, y):
    model = LogisticRegression().fit(people, y)
    expected = model.predict_proba(people)
    for other in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict_proba(people), expected)
    assert not hasattr(clone(model), "coef_names_")
    np.testing.assert_array_equal(clone(model).fit(people, y).predict_proba(people), expected)
    refit = model.fit(coded(people), y)  # numbers this time
    with pytest.raises(DataError, match="'site' holds Categorical, not numbers"):
        refit.predict(people)


def test_scikit_learn_passes_tables_through(people, y):
    scores = cross_val_score(LogisticRegression(), people, y, cv=3)
    expected = cross_val_score(LogisticRegression(), coded(people), y, cv=3)
    np.testing.assert_allclose(scores, expected)
    model = LogisticRegression().fit(people, y)
    found = permutation_importance(model, people, y, n_repeats=2, random_state=0)
    assert found.importances_mean.shape == (4,) == (model.n_features_in_,)


def test_a_converted_table_predicts_from_tables(people, y):
    design = as_design(people)
    model = LogisticRegression().fit(design, y)
    assert model.feature_names_in_.tolist() == NAMES
    expected = model.predict_proba(design)
    np.testing.assert_allclose(model.predict_proba(people), expected, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(as_design(coded(people))), expected, atol=1e-8)


def test_a_table_converted_with_another_reference_is_refused(people, y):
    """Its indicators have the names of the fit's, so that predictions would be wrong silently."""
    model = LogisticRegression().fit(people, y)
    other = people.assign(drug=people["drug"].replace("high", "extra"))
    design = as_design(other)
    assert design.names == NAMES
    with pytest.raises(DataError, match="'drug' was converted with the reference level 'extra'"):
        model.predict_proba(design)
    with pytest.raises(DataError, match="level 'extra' in row"):
        model.predict_proba(other)


def test_blocks_of_rows_have_numbers_only(people):
    with pytest.raises(DataError, match="Block 0: Column 'site' holds Categorical, not numbers"):
        ShardedDesign.from_blocks([people[:100], people[100:]])
