"""What is refused, with the column or row by name and the remedy."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from simulators import FAMILIES, problem
from steropes import (
    CoxRegression,
    CrossValidation,
    DataError,
    Laplace,
    LinearRegression,
    LogisticRegression,
    MultinomialLogisticRegression,
    Normal,
    PoissonRegression,
    SeparationError,
    Surv,
)

MODELS = {
    "linear": LinearRegression,
    "logistic": LogisticRegression,
    "poisson": PoissonRegression,
    "cox": CoxRegression,
}


@pytest.fixture(params=FAMILIES)
def family(request):
    return request.param


def data(family, rng):
    X, y = problem(family, rng, 60, 4)
    if family == "logistic":
        y[:2] = [0, 1]
    return X, Surv(*y) if family == "cox" else y


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["array", "csr", "csc", "coo", "pandas", "polars", "float32"])
def test_not_a_number_anywhere_in_x_is_refused_by_column_and_row(family, rng, bad, kind):
    pl = pytest.importorskip("polars")
    X, y = data(family, rng)
    X[17, 2] = bad
    names = ["age", "sex", "bleed", "dose"]
    X = {
        "array": lambda: X,
        "float32": lambda: X.astype(np.float32),
        "csr": lambda: sparse.csr_array(X),
        "csc": lambda: sparse.csc_matrix(X),
        "coo": lambda: sparse.coo_array(X),
        "pandas": lambda: pd.DataFrame(X, columns=names),
        "polars": lambda: pl.DataFrame(X, schema=names),
    }[kind]()
    column = "'bleed'" if kind in ("pandas", "polars") else "2"
    with pytest.raises(DataError, match=rf"column {column}.*row 17"):
        MODELS[family](prior=Normal()).fit(X, y)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("what", ["sample_weight", "offset"])
def test_not_a_number_in_weights_or_offset_is_refused_by_row(family, rng, bad, what):
    X, y = data(family, rng)
    values = np.ones(60)
    values[5] = bad
    with pytest.raises(DataError, match=rf"{what}.*row 5"):
        MODELS[family](prior=Normal()).fit(X, y, **{what: values})


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("family", ["linear", "logistic", "poisson"])
def test_not_a_number_in_y_is_refused_by_row(rng, family, bad):
    X, y = data(family, rng)
    y = y.astype(float)
    y[9] = bad
    with pytest.raises(DataError, match="y contains NaN or infinity: row 9"):
        MODELS[family](prior=Normal()).fit(X, y)


def test_missing_values_of_data_frames_are_refused(rng):
    pl = pytest.importorskip("polars")
    y = [0, 1, 0, 1]
    for frame in (
        pl.DataFrame({"a": [1.0, None, 2.0, 3.0]}),
        pl.DataFrame({"a": [True, None, False, True]}),
        pl.DataFrame({"a": [1, None, 2, 3]}),
        pd.DataFrame({"a": pd.array([1, None, 2, 3], dtype="Int64")}),
    ):
        with pytest.raises(DataError, match=r"column 'a', row 1"):
            LogisticRegression(prior=Normal()).fit(frame, y)


def test_numbers_as_text_are_refused_with_what_to_do_about_them():
    frame = pd.DataFrame({"age": [1.0, 2.0, 3.0], "dose": ["5", "10", "5"]})
    with pytest.raises(DataError, match=r"'dose'.*to_numeric"):
        LogisticRegression(prior=Normal()).fit(frame, [0, 1, 0])


@pytest.mark.parametrize("what", ["sample_weight", "offset"])
def test_another_length_is_refused(family, rng, what):
    X, y = data(family, rng)
    with pytest.raises(DataError, match=f"{what} has 59 entries, but X has 60 rows"):
        MODELS[family](prior=Normal()).fit(X, y, **{what: np.ones(59)})


def test_y_of_another_length_is_refused(family, rng):
    X, y = data(family, rng)
    with pytest.raises(DataError, match=r"(59|60).*(59|60)"):
        MODELS[family](prior=Normal()).fit(X, y[:59])


def test_strata_of_another_length_or_missing_are_refused(rng):
    X, y = data("cox", rng)
    with pytest.raises(DataError, match="strata has 59 entries, but X has 60 rows"):
        CoxRegression().fit(X, y, strata=np.ones(59))
    labels = np.array(["a"] * 60, object)
    for nothing in (None, "", " "):
        labels[7] = nothing
        for given in (labels, pd.Series(labels), [("b", label) for label in labels]):
            with pytest.raises(DataError, match="strata is missing in row 7"):
                CoxRegression().fit(X, y, strata=given)


@pytest.mark.parametrize("kind", [str, object, "category"])
def test_a_blank_class_is_refused(kind, rng):
    X, _ = data("logistic", rng)
    labels = pd.Series(np.where(np.arange(60) % 2, "", "case")).astype(kind)
    for model in (LogisticRegression(), MultinomialLogisticRegression()):
        with pytest.raises(DataError, match="y is blank in row 1; name this class"):
            model.fit(X, labels)


def test_negative_weights_are_refused_by_row(family, rng):
    X, y = data(family, rng)
    w = np.ones(60)
    w[3] = -0.5
    with pytest.raises(DataError, match=r"sample_weight must not be negative; row 3 is -0\.5"):
        MODELS[family](prior=Normal()).fit(X, y, sample_weight=w)
    with pytest.raises(DataError, match="zero in every row"):
        MODELS[family](prior=Normal()).fit(X, y, sample_weight=np.zeros(60))


def test_arguments_that_a_family_has_no_use_for_are_refused(rng):
    for family, names in (
        ("linear", ["strata", "exposure"]),
        ("logistic", ["strata", "exposure"]),
        ("poisson", ["strata"]),
        ("cox", ["exposure"]),
    ):
        X, y = data(family, rng)
        for name in names:
            with pytest.raises(DataError, match=f"no use for {name}"):
                MODELS[family](prior=Normal()).fit(X, y, **{name: np.ones(60)})


# -- outcomes -------------------------------------------------------------------------------------


def test_times_are_checked_by_row():
    with pytest.raises(DataError, match="time must not be negative; row 1 is -2"):
        Surv([1, -2, 3], [1, 0, 1])
    with pytest.raises(DataError, match="time contains NaN or infinity: row 2"):
        Surv([1, 2, np.nan], [1, 0, 1])
    with pytest.raises(DataError, match=r"entry must be before time.*row 1"):
        Surv([1, 2, 3], [1, 0, 1], entry=[0, 2, 0])
    with pytest.raises(DataError, match=r"entry must be a number.*row 0"):
        Surv([1, 2], [1, 0], entry=[np.nan, 0])
    with pytest.raises(DataError, match="row 2 is -1"):
        Surv([1, 2, 3], [1, 0, -1])
    with pytest.raises(DataError, match=r"row 0 is 0\.5"):
        Surv([1, 2], [0.5, 1])
    with pytest.raises(DataError, match="event contains NaN"):
        Surv([1, 2], [np.nan, 1])
    with pytest.raises(DataError, match="event has 3 entries, but"):
        Surv([1, 2], [1, 0, 1])


def test_structured_arrays_made_by_hand_are_checked_as_well():
    y = np.array([(1, 1.0), (1, np.nan)], dtype=[("event", int), ("time", float)])
    with pytest.raises(DataError, match="row 1"):
        CoxRegression(prior=Normal()).fit([[1.0], [2.0]], y)


@pytest.mark.parametrize(
    ("family", "y", "match"),
    [
        ("logistic", [1] * 4, "one class only"),
        ("logistic", [0, 1, 2, 0], "3 classes"),
        ("logistic", [0.1, 0.2, 0.3, 0.7], "continuous"),
        ("poisson", [0.0] * 4, "zero in every row"),
        ("poisson", [1, 2, -1, 0], "row 2 is -1"),
        ("cox", Surv([1, 2, 3, 4], [0, 0, 0, 0]), "no events"),
        ("cox", Surv([1, 2, 3, 4], [0, 2, 1, 0]), "row 1 is 2"),
        ("cox", np.ones(4), "survival outcome"),
    ],
)
def test_outcomes_that_say_nothing_are_refused(family, y, match):
    X = np.array([[1.0], [2.0], [0.0], [1.0]])
    with pytest.raises(DataError, match=match):
        MODELS[family](prior=Normal()).fit(X, y)


@pytest.mark.parametrize(
    ("family", "y"),
    [
        ("logistic", [1, 1, 0, 1]),
        ("poisson", [0.0, 0.0, 2.0, 0.0]),
        ("cox", Surv([1, 2, 3, 4], [0, 0, 1, 0])),
    ],
)
def test_events_that_all_have_weight_zero_are_refused(family, y):
    X = np.array([[1.0], [2.0], [0.0], [1.0]])
    with pytest.raises(DataError, match="positive weight"):
        MODELS[family](prior=Normal()).fit(X, y, sample_weight=[1, 1, 0, 1])


def test_exposure_must_be_positive():
    with pytest.raises(DataError, match="exposure must be positive; row 1 is 0"):
        PoissonRegression().fit([[0.0], [1.0]], [1, 2], exposure=[1, 0])


# -- fits without a finite or unique maximum -------------------------------------------------------


def test_zero_constant_and_collinear_columns_without_penalty_are_named(family, rng):
    X, y = data(family, rng)
    frame = pd.DataFrame(X, columns=["age", "sex", "score", "dose"])
    zero = frame.assign(never=0.0)
    with pytest.raises(SeparationError, match="'never'") as caught:
        MODELS[family]().fit(zero, y)
    assert caught.value.columns == ["never"]
    constant = frame.assign(always=3.0)
    with pytest.raises(SeparationError, match="'always'"):
        MODELS[family]().fit(constant, y)
    sums = frame.assign(sum=frame["age"] + 2 * frame["dose"])
    with pytest.raises(SeparationError, match="Collinear") as caught:
        MODELS[family]().fit(sums, y)
    assert set(caught.value.columns) <= {"age", "dose", "sum"}
    for name in ("'age'", "'dose'", "'sum'"):
        assert name in str(caught.value)
    # sparse input and an intercept that the columns add up to
    if family != "cox":
        both = frame[["score"]].assign(yes=frame["sex"] > 0, no=~(frame["sex"] > 0))
        with pytest.raises(SeparationError, match="Collinear"):
            MODELS[family]().fit(sparse.csc_array(both.astype(float)), y)


def test_the_same_columns_with_a_penalty_have_a_unique_fit(family, rng):
    X, y = data(family, rng)
    X = np.column_stack([X, np.zeros(60), X[:, 0] + X[:, 1]])
    m = MODELS[family](prior=Normal(1.0)).fit(X, y)
    assert m.converged_
    assert m.coef_[4] == 0


@pytest.mark.parametrize("dense", [True, False])
def test_separated_columns_are_named(dense):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=80), np.zeros(80), rng.integers(0, 2, 80)])
    y = rng.integers(0, 2, 80)
    X[y == 1, 1] = rng.random(int(y.sum())) < 0.3  # ones among the cases only
    X = X if dense else sparse.csc_array(X)
    with pytest.raises(SeparationError, match="'x1'") as caught:
        LogisticRegression().fit(X, y)
    assert caught.value.columns == ["x1"]
    with pytest.raises(SeparationError, match="'x1'"):  # an excluded column has no penalty
        LogisticRegression(prior=Laplace(1.0, exclude=[1])).fit(X, y)
    assert LogisticRegression(prior=Laplace(1.0)).fit(X, y).converged_


def test_a_column_without_events_has_no_finite_hazard_ratio(rng):
    X, y = problem("cox", rng, 100, 3)
    X = X.copy()
    X[:, 0] = (y[1] == 0) & (rng.random(100) < 0.5)
    with pytest.raises(SeparationError, match="'x0'"):
        CoxRegression().fit(X, Surv(*y))


def test_a_group_without_counts_has_no_finite_rate(rng):
    X, y = problem("poisson", rng, 100, 3)
    X[:, 0] = (y == 0) & (rng.random(100) < 0.5)
    with pytest.raises(SeparationError, match="'x0'"):
        PoissonRegression().fit(X, y)


def test_a_large_but_finite_estimate_is_not_refused():
    # 1 of 200 among the exposed against 199 of 200: log odds ratio 10.6
    X = np.repeat([[1.0], [0.0]], 200, axis=0)
    y = np.r_[np.ones(199), 0, np.zeros(199), 1].astype(int)
    m = LogisticRegression().fit(X, y)
    assert m.coef_[0] == pytest.approx(2 * np.log(199), rel=1e-9)


# -- settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"solver": "fast"}, "solver must be"),
        ({"tol": 0}, "tol must be positive"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
        ({"prior": 3}, "prior must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"device": "tpu"}, "device must be"),
        ({"prior": Laplace(-1.0)}, "variance must be positive"),
        ({"prior": Laplace([1.0, 2.0])}, "one for each of the 4"),
        ({"prior": Laplace(1.0, exclude=["nobody"])}, "'nobody'"),
        ({"prior": Laplace(1.0, exclude=[9])}, "position 9"),
        ({"cv": 5}, "cv needs a prior"),
        ({"prior": Laplace(), "cv": 1}, "folds must be"),
        ({"prior": Laplace(), "cv": CrossValidation(3, search=[])}, "search must be"),
        ({"prior": Laplace(), "cv": CrossValidation(3, search=[-1])}, "search must be"),
        ({"prior": Laplace(), "cv": CrossValidation(3, scoring="area")}, "scoring must be"),
        ({"prior": Laplace(), "cv": CrossValidation(61)}, "61 folds"),
    ],
)
def test_settings_that_make_no_sense_are_refused(rng, settings, match):
    X, y = data("logistic", rng)
    with pytest.raises(DataError, match=match):
        LogisticRegression(**settings).fit(X, y)


def test_ties_must_be_a_method_that_exists(rng):
    X, y = data("cox", rng)
    with pytest.raises(DataError, match="ties must be"):
        CoxRegression(ties="exact").fit(X, y)


def test_new_data_must_have_the_columns_of_the_fit(rng):
    X, y = data("logistic", rng)
    frame = pd.DataFrame(X, columns=list("abcd"))
    m = LogisticRegression(prior=Normal()).fit(frame, y)
    with pytest.raises(DataError, match="3 features"):
        m.predict(frame[list("abc")])
    with pytest.raises(DataError, match="column 0 was 'a' and is 'b'"):
        m.predict(frame[list("bacd")])


def test_a_refused_fit_leaves_nothing_fitted_behind():
    X = np.array([[0.0], [0.0], [1.0], [1.0]])
    m = LogisticRegression()
    with pytest.raises(SeparationError):
        m.fit(X, [0, 0, 1, 1])
    assert not hasattr(m, "coef_")


@pytest.mark.parametrize(
    "kind", [LinearRegression, LogisticRegression, MultinomialLogisticRegression, PoissonRegression]
)
def test_a_score_reads_the_outcome_as_a_fit_does(kind):
    X, y = np.arange(12.0)[:, None], np.array([0, 1, 1, 0] * 3)
    model = kind().fit(X, y)
    structured = np.zeros(12, [("event", bool), ("time", float)])
    with pytest.raises(DataError, match="structured array"):
        model.score(X, structured)
    with pytest.raises(DataError, match="rows"):
        model.score(X, y[:5])
