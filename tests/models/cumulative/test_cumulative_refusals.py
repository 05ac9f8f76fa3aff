"""Input that no model can be fitted to is refused, with the column or row by name."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from steropes import DataError, Normal, NotConvergedWarning, SeparationError
from steropes.models.cumulative import Censored, CumulativeProbabilityModel, EqualQuantileBins

Model = CumulativeProbabilityModel


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda X, y: (X, np.ones(len(y))), "every outcome is 1"),
        (lambda X, y: (X, np.where(np.arange(len(y)) == 3, np.nan, y)), "row 3"),
        (lambda X, y: (X[:1], y[:1]), "One row"),
        (lambda X, y: (X, y[:-1]), "rows"),
        (lambda X, y: (np.where(X[5, 0] == X, np.inf, X), y), "row 5"),
    ],
)
def test_data_that_cannot_be_used(change, what, data):
    with pytest.raises(DataError, match=what):
        Model().fit(*change(*data))


@pytest.mark.parametrize("kw", [{"exposure": 1}, {"strata": 1}])
def test_what_the_model_does_not_have(kw, data):
    X, y = data
    with pytest.raises(DataError):
        Model().fit(X, y, **{k: np.ones(len(y)) for k in kw})


@pytest.mark.parametrize(
    "kw",
    [
        {"link": "log"},
        {"link": ["logit"]},
        {"solver": "ccd"},
        {"device": "gpu"},
        {"reduce": "bins"},
        {"tol": 0},
    ],
)
def test_settings(kw, data):
    with pytest.raises(DataError):
        Model(**kw).fit(*data)


def test_reduction_of_censored_outcomes(data):
    X, y = data
    with pytest.raises(DataError, match="uncensored"):
        Model(reduce=EqualQuantileBins(5)).fit(X, Censored(y - 1, y))


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog"])
def test_outcome_ordered_by_a_column(link, data):
    X, _ = data
    with pytest.raises(SeparationError) as caught:
        Model(link=link).fit(pd.DataFrame(X, columns=["a", "b", "c"]), np.round(X[:, 0], 1))
    assert caught.value.columns[0] == "a"


@pytest.mark.parametrize("link", ["logit", "probit", "cloglog", "loglog"])
def test_column_that_has_only_the_highest_outcome(link, data):
    X, y = data
    X = np.column_stack([X, y == y.max()])
    with pytest.raises(SeparationError, match="x3"):
        Model(link=link).fit(X, y)


@pytest.mark.parametrize("link", ["probit", "loglog"])
def test_nested_columns_that_have_only_the_highest_outcome(link):
    """There are directions without information along which the likelihood does not rise, too."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 3 + seed % 3, 80).astype(float)
        wide = (y == y.max()) & (rng.random(80) < 0.5)
        inner = wide & (rng.random(80) < 0.4)
        X = np.column_stack([inner, wide, rng.integers(0, 2, (80, 2))])
        with pytest.raises(SeparationError, match="no finite maximum"):
            Model(link=link).fit(X, y)


def test_constant_and_collinear_columns(data):
    X, y = data
    with pytest.raises(SeparationError, match=r"'x3'.*constant"):
        Model().fit(np.column_stack([X, np.full(len(y), 3.7)]), y)
    with pytest.raises(SeparationError, match="'x3' can be written"):
        Model().fit(np.column_stack([X, X[:, 0] - 2 * X[:, 2]]), y)


def test_constant_only_where_rows_have_weight(data):
    X, y = data
    w = np.where(X[:, 1] == 1, 1.0, 0.0)
    with pytest.raises(SeparationError, match="x1"):
        Model().fit(X, y, sample_weight=w)


def test_cauchit_column_of_one_row_in_the_tail_is_separated_not_constant(data):
    X, y = data
    X = np.column_stack([X, np.arange(len(y)) == np.argmax(y)])
    y = y + np.where(X[:, 3] == 1, 1e3, 0.0)
    with pytest.raises(SeparationError, match="no finite maximum"):
        Model(link="cauchit").fit(X, y)


def test_strong_but_not_separating_effects_are_fitted():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(400, 1))
    m = Model().fit(x, 30 * x[:, 0] + rng.logistic(size=400))
    assert m.converged_
    assert m.coef_[0] == pytest.approx(30, rel=0.15)


@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_separation_is_told_where_the_fit_has_gone_too_far_to_walk_on(link):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), np.round(rng.normal(size=12), 1)
    with pytest.raises(SeparationError, match="'x0', 'x1' go to infinity"):
        Model(link=link).fit(X, y, sample_weight=[3, 0, 0, 0, 0, 0, 1, 1, 2, 3, 2, 0])


def test_outcomes_by_name_are_to_be_numbered(data):
    X, y = data
    with pytest.raises(DataError, match=r"must hold numbers.*Give ordered categories as numbers"):
        Model().fit(X, np.where(y > 5, "high", "low"))
    with pytest.raises(DataError, match="row 0 is None"):
        Model().fit(X, np.array([None, *y[1:]], object))


@pytest.mark.parametrize(
    "call",
    [
        lambda m, X, y: m.vcov(),
        lambda m, X, y: m.vcov("robust"),
        lambda m, X, y: m.summary(),
        lambda m, X, y: m.confint(),
        lambda m, X, y: m.inference.profile(0, [0.0]),
        lambda m, X, y: m.inference.bootstrap(2),
        lambda m, X, y: m.alpha_summary(),
        lambda m, X, y: m.predict_mean(X),
        lambda m, X, y: m.checks.residuals(X, y),
        lambda m, X, y: m.checks.parallelism(X, y),
        lambda m, X, y: m.checks.plot_alpha(),
    ],
)
def test_before_the_fit(call, data):
    with pytest.raises(NotFittedError):
        call(Model(), *data)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda m, X, y: m.vcov(cluster=[1, 2]), "cluster has 2 entries, but X has 120 rows"),
        (lambda m, X, y: m.vcov(cluster=[np.nan] * 120), "cluster is missing in row 0"),
        (lambda m, X, y: m.vcov(cluster=np.zeros(120)), "one label only"),
        (lambda m, X, y: m.confint(method="profile", cluster=y), "not 'profile'"),
        (lambda m, X, y: m.confint(7), "no coefficient 7"),
        (lambda m, X, y: m.predict_cdf(X, "a"), "y must hold numbers"),
        (lambda m, X, y: m.checks.parallelism(X, y, quantiles=[-1, 0.5, 3]), "between 0 and 1"),
        (lambda m, X, y: m.checks.plot_alpha(scale="log2"), "scale must be"),
        (lambda m, X, y: m.checks.plot_alpha(at=[1.0]), "at has 1 entries"),
    ],
)
def test_questions_that_have_no_answer(call, what, data):
    X, y = data
    m = Model().fit(X, y)
    with pytest.raises(DataError, match=what):
        call(m, X, y)


def test_parallelism_names_the_cut_at_which_a_column_separates():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=200), np.arange(200) % 10 == 0])
    y = X[:, 0] + rng.logistic(size=200)
    y[X[:, 1] == 1] = 50 + np.arange(20)
    y[0] = -10
    with pytest.raises(SeparationError, match=r"At the cut y > .*x1") as caught:
        Model().fit(X, y).checks.parallelism(X, y, quantiles=[0.002, 0.3, 0.92])
    assert "x1" in caught.value.columns


@pytest.mark.sampled
@pytest.mark.parametrize("scale", [1.0, 1e-5, 1e5])
@pytest.mark.parametrize("link", ["logit", "probit", "loglog", "cloglog", "cauchit"])
def test_a_column_that_splits_the_outcome_is_named_whatever_the_unit_of_weights(link, scale):
    rng = np.random.default_rng(4)
    y = np.sort(rng.normal(size=30))
    x = (np.arange(30) >= 3).astype(float)
    w = scale * rng.uniform(0.5, 2.0, 30)
    for X in (x[:, None], np.c_[rng.normal(size=30) > 0, x]):
        with pytest.raises(SeparationError, match=f"coefficients of 'x{X.shape[1] - 1}' go"):
            CumulativeProbabilityModel(link=link).fit(X, y, sample_weight=w)


LINKS = ["logit", "probit", "loglog", "cloglog", "cauchit"]


def rounded_otherwise(X, y, seed):
    """Row weights of some size; and the same data in another order, off by a few ulps."""
    rng = np.random.default_rng(seed)
    w = rng.choice([1e-5, 1.0, 1e5]) * rng.uniform(0.5, 2.0, len(y))
    rows, columns = rng.permutation(len(y)), rng.permutation(X.shape[1])
    X = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    X = X * (1 + 1e-13 * rng.normal(size=X.shape))
    return X.iloc[rows, columns], y[rows], w[rows]


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("link", LINKS)
def test_what_is_separated_does_not_hang_on_rounding(link, seed):
    rng = np.random.default_rng([7, seed])
    y = np.sort(rng.normal(size=40))
    x = (np.arange(40) >= rng.integers(2, 39)).astype(float)
    X = np.c_[rng.normal(size=40), rng.normal(size=40) > 0, x]
    for at in range(3):
        data = rounded_otherwise(X[:, 2 - at :], y, [seed, at])
        name = f"x{at}"
        with pytest.raises(SeparationError, match=f"coefficients of '{name}' go"):
            Model(link=link).fit(*data[:2], sample_weight=data[2])


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("link", LINKS)
def test_what_is_in_order_by_a_sum_of_columns_is_separated_whatever_the_rounding(link, seed):
    rng = np.random.default_rng([8, seed])
    X = rng.normal(size=(50, 3))
    y = np.round(X[:, :2] @ [1.0, -2.0], 1)
    data = rounded_otherwise(X, y, seed)
    with pytest.raises(SeparationError, match="no finite maximum") as caught:
        Model(link=link).fit(*data[:2], sample_weight=data[2])
    assert {"x0", "x1"} <= set(caught.value.columns)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("link", LINKS)
def test_two_rows_out_of_order_by_little_are_a_maximum_far_out(link, seed):
    """Coefficients of hundreds: to walk ten farther costs next to nothing."""
    rng = np.random.default_rng([9, seed])
    x = np.sort(rng.normal(size=40))
    y = np.round(x, 1)
    at = int(np.argmin(np.where(np.diff(y) > 0, np.diff(x), np.inf)))
    y[[at, at + 1]] = y[[at + 1, at]]
    data = rounded_otherwise(x[:, None], y, seed)
    m = Model(link=link).fit(*data[:2], sample_weight=data[2])
    assert m.converged_
    assert m.coef_[0] > 20


@pytest.mark.parametrize("link", ["logit", "probit", "loglog", "cloglog", "cauchit"])
def test_a_difference_of_columns_that_splits_the_outcome_is_named(link):
    """Each column alone does not; by a tail that falls doubly fast the fit ends near by."""
    rng = np.random.default_rng(2)
    y = np.arange(60) % 5
    x1 = np.zeros(60)
    x1[[0, 5, 11, 22, 34]] = 1.0  # outcomes 0, 0, 1, 2, 4
    x0 = x1.copy()
    x0[[0, 5]] = 0.0
    X = np.c_[x0, x1, rng.normal(size=60)]
    with pytest.raises(SeparationError, match=r"'x0'|'x1'"):
        CumulativeProbabilityModel(link=link).fit(X, y)
    y[5] = 3  # one of the two elsewhere
    assert CumulativeProbabilityModel(link=link).fit(X, y).converged_


@pytest.mark.sampled
@pytest.mark.parametrize("link", ["logit", "probit", "loglog", "cloglog"])
@pytest.mark.parametrize("variance", [1e2, 1e8, 1e12])
def test_a_column_beside_a_penalised_one_that_splits_the_outcome_is_not_separated(link, variance):
    """Its likelihood has a maximum: the prior ends where the other column goes, however far."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(166, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    prior = Normal(variance, exclude=["x1"])
    m = CumulativeProbabilityModel(link=link, prior=prior).fit(X, y)
    assert m.converged_
    y = np.digitize(X[:, 1], [-0.5, 0.5])  # by itself it is
    with pytest.raises(SeparationError, match="'x1'"):
        CumulativeProbabilityModel(link=link, prior=prior).fit(X, y)


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("cloglog", r"offsets are so far apart \(-300 in row \d+, 300 in row \d+\)"),
        ("cauchit", "Check the unit of the offsets"),
    ],
)
def test_offsets_that_leave_no_numbers_are_named(link, said):
    rng = np.random.default_rng(15)
    X = rng.normal(size=(20, 2))
    y = X[:, 0] + rng.logistic(size=20)
    offset = np.where(rng.random(20) < 0.5, 300.0, -300.0)
    with pytest.raises(ValueError, match=said):
        CumulativeProbabilityModel(link=link).fit(X, y, offset=offset)


def test_a_fit_that_stops_short_says_that_its_offsets_are_far_apart():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    y = X[:, 0] + rng.logistic(size=20)
    offset = np.where(np.arange(20) % 2 == 0, 300.0, -300.0)
    with pytest.warns(NotConvergedWarning, match=r"far apart \(-300 in row 1, 300 in row 0\)"):
        CumulativeProbabilityModel().fit(X, y, offset=offset)
