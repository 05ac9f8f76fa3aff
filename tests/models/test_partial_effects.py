"""Partial effects are predictions at typical values; plots show them."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

from steropes import (
    CoxRegression,
    DataError,
    LogisticRegression,
    MultinomialLogisticRegression,
    PoissonRegression,
    PooledLogisticRegression,
    ShardedDesign,
    Surv,
    plots,
)
from steropes.models.fitting import variable_summaries
from steropes.models.fitting.variable_summaries import summarize_variables

mpl.use("Agg")
RNG = np.random.default_rng(13)
N = 300
D = pd.DataFrame({
    "age": RNG.normal(60, 10, N), "sex": RNG.choice(["f", "m", "m"], N), "n": RNG.integers(0, 3, N),
    "flag": RNG.random(N) < 0.3,
})  # fmt: skip
D["y"] = (RNG.random(N) < 1 / (1 + np.exp(6 - 0.1 * D["age"]))) * 1
D["time"] = RNG.exponential(np.exp(-0.05 * (D["age"] - 60)))
MODEL = LogisticRegression.from_formula("y ~ bs(age, df=4) + sex + n + flag", D)


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def test_typical_values_are_medians_and_modes_without_extremes():
    found = summarize_variables(D, {"age", "sex", "n", "flag"})
    assert found["age"].center == D["age"].median()
    low, high = found["age"].values[0], found["age"].values[-1]
    np.testing.assert_allclose([low, high], D["age"].quantile([0.05, 0.95]))
    assert found["sex"].center == "m"
    assert found["sex"].values == ("f", "m")
    assert found["n"].values == (0, 1, 2)
    assert not found["flag"].numeric


def test_an_effect_is_the_difference_of_two_rows():
    table = MODEL.effects.partial("age", [50, 70], "ratio")
    rows = pd.DataFrame({"age": [50.0, 70.0], "sex": "m", "n": int(D["n"].median()), "flag": False})
    middle = rows.iloc[[0]].assign(age=D["age"].median())
    expected = MODEL.effects.predictions(rows, "ratio", reference=middle)
    np.testing.assert_allclose(table[expected.columns], expected, rtol=1e-9)
    people = {"kind": "robust", "cluster": np.arange(len(D)) // 2}
    table = MODEL.effects.partial("age", [50, 70], "ratio", **people)
    expected = MODEL.effects.predictions(rows, "ratio", reference=middle, **people)
    np.testing.assert_allclose(table[expected.columns], expected, rtol=1e-9)
    assert table.attrs["errors"] == "robust"
    means = MODEL.effects.partial("sex", scale="response", at={"age": 50})
    rows = pd.DataFrame({"age": 50.0, "sex": ["f", "m"], "n": int(D["n"].median()), "flag": False})
    np.testing.assert_allclose(means["estimate"], MODEL.predict_proba(rows)[:, 1], rtol=1e-9)
    assert means["sex"].tolist() == ["f", "m"]


def test_plots_show_the_table_and_the_risks():
    line = plots.partial_effect(MODEL, "age").lines[0]
    np.testing.assert_allclose(line.get_ydata(), MODEL.effects.partial("age")["estimate"])
    assert plots.partial_effect(MODEL, "sex", scale="ratio").get_yscale() == "log"
    words = [t.get_text() for t in plots.nomogram(MODEL).texts]
    assert {"Points", "age", "sex", "n", "Total points", "Risk", "0.5"} <= set(words)


def test_points_of_a_nomogram_add_up_to_the_risk():
    model = CoxRegression.from_formula("Surv(time, y) ~ age + sex", D)
    ax = plots.nomogram(model, time=1.0, risks=[0.5])
    rows = {}
    for text in ax.texts:
        x, y = text.get_position()
        rows.setdefault(round(-y), {})[text.get_text()] = x
    _, age, sex, total, risk = (rows[i] for i in range(5))
    assert "Risk by 1" in risk
    years = sorted((float(label), x) for label, x in age.items() if label != "age")
    (first, low), (last, high) = years[0], years[-1]
    length = max(x for label, x in total.items() if label != "Total points")
    longest = max(float(label) for label in total if label != "Total points")
    # The person at the mark of the risk, from the picture alone.
    points = risk["0.5"] / length * longest - sex["f"]
    person = pd.DataFrame({"age": [first + (points - low) / (high - low) * (last - first)]})
    survival = model.predict_survival(person.assign(sex="f"), [1.0])
    np.testing.assert_allclose(survival, 0.5, rtol=1e-6)


@pytest.mark.parametrize("time", [0.01, 1.0])
def test_a_nomogram_marks_round_risks_of_a_narrow_range(time):
    model = CoxRegression.from_formula("Surv(time, y) ~ age + sex", D)
    texts = plots.nomogram(model, time=time).texts
    bottom = min(t.get_position()[1] for t in texts)
    marks = [float(t.get_text()) for t in texts if abs(t.get_position()[1] - bottom) < 0.32
             and t.get_text()[0] in "01"]  # fmt: skip
    assert len(marks) >= 4
    assert (np.array(marks) == np.round(marks, 3)).all()


def test_what_has_no_effect_is_refused():
    with pytest.raises(DataError, match="from_formula"):
        LogisticRegression().fit(D[["age"]].to_numpy(), D["y"]).effects.partial("x0")
    with pytest.raises(DataError, match="no variable of the model"):
        MODEL.effects.partial("height")
    with pytest.raises(DataError, match="no variable of the model"):
        MODEL.effects.partial("age", at={"height": 1})
    with pytest.raises(DataError, match="leave it out of at"):
        MODEL.effects.partial("age", at={"age": 1})
    crossed = LogisticRegression.from_formula("y ~ age * sex", D)
    with pytest.raises(DataError, match="interaction"):
        plots.nomogram(crossed)
    with pytest.raises(DataError, match="between 0 and 1"):
        plots.nomogram(MODEL, risks=[1.0])
    with pytest.raises(DataError, match="leave it out"):
        plots.nomogram(MODEL, time=3.0)
    cox = CoxRegression.from_formula("Surv(time, y) ~ age", D)
    with pytest.raises(DataError, match="needs the time"):
        plots.nomogram(cox)
    with pytest.raises(DataError, match="from_formula"):
        plots.nomogram(CoxRegression().fit(D[["age"]].to_numpy(), Surv(D["time"], D["y"])))


def test_an_offset_is_zero():
    model = PoissonRegression.from_formula("n ~ age + offset(time)", D)
    rows = pd.DataFrame({"age": [50.0, 70.0], "time": 0.0})
    table = model.effects.partial("age", [50, 70], "response")
    np.testing.assert_allclose(table["estimate"], model.predict(rows), rtol=1e-9)
    assert np.isfinite(model.effects.partial("age", [50, 70])["estimate"]).all()
    logistic = LogisticRegression.from_formula("y ~ age + offset(time)", D)
    with pytest.raises(DataError, match="no scale for the offset"):
        plots.nomogram(logistic)


def test_numbers_used_as_categories_have_levels():
    data = D.assign(site=np.arange(N) % 12)
    model = LogisticRegression.from_formula("y ~ age + C(site)", data)
    table = model.effects.partial("site")
    assert table["site"].tolist() == list(range(12))
    difference = table["estimate"] - table["estimate"][0]
    np.testing.assert_allclose(difference[1:], model.coef_[1:], rtol=1e-9)
    effects = model.effects.average(data, "site")
    assert effects.index.tolist() == [f"site[{k}]" for k in range(1, 12)]
    high, low = (model.predict_proba(data.assign(site=k))[:, 1].mean() for k in (5, 0))
    assert effects.loc["site[5]", "effect"] == pytest.approx(high - low)
    both = LogisticRegression.from_formula("y ~ age + C(n) + n:age", data)
    assert both._formula.variables["n"].numeric


@pytest.mark.parametrize("labels", ["text", "categories", "numbers"])
def test_a_data_frame_has_the_effects_of_the_formula_of_its_columns(labels):
    X = D[["age", "sex", "n", "flag"]].copy()
    formula = "y ~ age + sex + n + flag"
    if labels == "categories":
        X["sex"] = X["sex"].astype(pd.CategoricalDtype(["m", "unknown", "f"]))
    elif labels == "numbers":
        X["sex"] = X["sex"].map({"f": 0.0, "m": 1.0})
    plain = LogisticRegression().fit(X, D["y"])
    other = LogisticRegression.from_formula(formula, X.assign(y=D["y"]))
    for name, chosen in (("age", [50, 70]), ("sex", None), ("n", None), ("flag", [False, True])):
        a = plain.effects.partial(name, chosen, at={"flag": False} if name != "flag" else None)
        b = other.effects.partial(name, chosen, at={"flag": False} if name != "flag" else None)
        np.testing.assert_allclose(a.drop(columns=name), b.drop(columns=name), rtol=1e-5, atol=1e-7)
        assert a[name].tolist() == b[name].tolist()
    ours, theirs = (sorted(t.get_text() for t in plots.nomogram(m).texts) for m in (plain, other))
    assert set(theirs) - set(ours) <= {"False", "True"}  # booleans are columns of zeros and ones
    assert plots.partial_effect(plain, "age").get_xlabel() == "age"


def test_a_nomogram_of_a_data_frame_gives_the_risk_of_a_cox_model():
    y = Surv(D["time"], np.ones(N))
    m = CoxRegression().fit(D[["age", "sex"]], y)
    scales = {t.get_text() for t in plots.nomogram(m, time=0.5).texts}
    assert {"age", "sex", "f", "m", "Risk by 0.5"} <= scales
    again = CoxRegression().fit(D[["age", "n"]], y)  # a refit forgets the variables of the last fit
    again.effects.partial("n")
    again.fit(D[["age", "sex"]], y)
    assert again.effects.partial("sex")["sex"].tolist() == ["f", "m"]


def test_a_level_that_the_data_lack_is_refused_by_name():
    m = LogisticRegression().fit(D[["age", "sex"]], D["y"])
    with pytest.raises(DataError, match="'sex' has no level 'x'; its levels are 'f', 'm'"):
        m.effects.partial("sex", ["f", "x"])
    with pytest.raises(DataError, match="no level 'x'"):
        m.effects.partial("age", at={"sex": "x"})


def test_fixed_coefficients_and_many_columns_have_no_typical_row(monkeypatch):
    fixed = LogisticRegression().fit(D[["age", "n"]], D["y"], fixed={"n": 0.1})
    with pytest.raises(DataError, match="fixed coefficients"):
        fixed.effects.partial("age")
    monkeypatch.setattr(variable_summaries, "MAX_COLUMNS", 1)
    many = LogisticRegression().fit(D[["age", "n"]], D["y"])
    with pytest.raises(DataError, match="has 2 columns"):
        many.effects.partial("age")
    blocks = ShardedDesign.from_blocks([D[["age", "n"]].iloc[:100], D[["age", "n"]].iloc[100:]])
    with pytest.raises(DataError, match="rows in blocks"):
        LogisticRegression().fit(blocks, D["y"]).effects.partial("age")


def test_classes_of_a_data_frame_have_the_effects_of_the_formula():
    y = np.array(["a", "b", "c"])[D["n"]]
    plain = MultinomialLogisticRegression().fit(D[["age", "sex"]], y)
    other = MultinomialLogisticRegression.from_formula("y ~ age + sex", D.assign(y=y))
    for name in ("age", "sex"):
        a, b = plain.effects.partial(name), other.effects.partial(name)
        assert a[name].tolist() == b[name].tolist()
        np.testing.assert_allclose(a.drop(columns=name), b.drop(columns=name), rtol=1e-5, atol=1e-7)
    held = MultinomialLogisticRegression().fit(D[["age", "sex"]], y, fixed={"b:age": 0.1})
    assert (held.effects.partial("age", [50.0, 60.0])["se"].xs("b", level="class") == 0).all()


def test_predictors_of_each_interval_have_no_partial_effect():
    y = Surv(np.ceil(10 * D["time"]), np.ones(N))
    m = PooledLogisticRegression(interval=20.0).fit(D[["age"]], y)
    with pytest.raises(DataError, match=r"for each interval of time.*predict_survival"):
        m.effects.partial("age")


@pytest.mark.parametrize("formula", [False, True])
def test_arguments_that_are_no_values_are_refused_in_a_sentence(formula):
    m = MODEL if formula else LogisticRegression().fit(D[["age", "sex", "n", "flag"]], D["y"])
    for arguments, message in (
        ((D,), "variable must be a name, not DataFrame"),
        ((["age"],), "variable must be a name, not list"),
        (("age", ["old"]), "'age' is a number, not 'old'"),
        (("age", None, "linear", 0.95, {"n": "two"}), "'n' is a number, not 'two'"),
        (("age", None, "linear", 0.95, {"sex": ["f", "m"]}), "at has one value of 'sex'"),
        (("age", None, "linear", 0.95, ["sex"]), "at must be a mapping"),
    ):
        with pytest.raises(DataError, match=message):
            m.effects.partial(*arguments)
    with pytest.raises(DataError, match="'flag' is a number, not 'yes'"):
        m.effects.partial("age", at={"flag": "yes"})
    named = LogisticRegression().fit(D[["age"]].rename(columns={"age": "se"}), D["y"])
    with pytest.raises(DataError, match="'se' is a column of the table"):
        named.effects.partial("se")


def test_a_nomogram_has_no_scale_for_an_offset():
    given = {"y": D["y"], "offset": np.full(N, 3.0)}
    plain = LogisticRegression().fit(D[["age", "sex"]], **given)
    formula = LogisticRegression.from_formula("y ~ age", D, offset=given["offset"])
    for model in (plain, formula):
        with pytest.raises(DataError, match="no scale for the offset of the fit"):
            plots.nomogram(model)
    held = LogisticRegression.from_formula("y ~ age + n", D, fixed={"n": 0.1})
    assert len(plots.nomogram(held).texts) > 10
