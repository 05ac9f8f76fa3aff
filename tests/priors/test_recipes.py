"""Priors as short as those of docs/extending.md, where coefficients are not one a column."""

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from every_family import EVERY, case
from steropes import (
    CoxRegression,
    CrossValidation,
    DataError,
    Hierarchical,
    Laplace,
    LogisticRegression,
    Normal,
    PooledLogisticRegression,
    Surv,
)
from steropes.priors import GroupPenalty, Penalty, Prior

PLAIN = [name for name in EVERY if name not in ("cox by step", "pooled change")]


@dataclass(frozen=True)
class SumToZero(Prior):
    """Of docs/extending.md."""

    variance: float = 1.0
    sum_variance: float = 1.0

    def separable(self, names):
        return Penalty(np.zeros(len(names)), np.full(len(names), 1 / self.variance))

    def with_variance(self, variance):
        return replace(self, variance=variance)

    def smooth(self, names):
        return Square(np.ones(len(names)), 1 / self.sum_variance)


@dataclass(frozen=True)
class Square:
    """½ strength (a'β)²."""

    a: np.ndarray
    strength: float

    def value(self, beta):
        return 0.5 * self.strength * (self.a @ beta) ** 2

    def gradient(self, beta):
        return self.strength * np.multiply.outer(self.a, self.a @ beta)

    def hessian(self, beta, columns):
        return self.strength * np.outer(self.a[columns], self.a[columns])


@dataclass(frozen=True)
class ReweightedLaplace(Prior):
    """Of docs/extending.md."""

    adaptive = True
    variance: float = 1.0
    epsilon: float = 0.1

    def separable(self, names):
        return self._around(np.zeros(len(names)))

    def next_penalty(self, names, beta, before):
        return self._around(beta)

    def _around(self, beta):
        size = np.abs(beta) + self.epsilon
        return Penalty(np.sqrt(2 / self.variance) / size, np.zeros(len(beta)))

    def with_variance(self, variance):
        return replace(self, variance=variance)


@dataclass(frozen=True)
class Difference(Prior):
    """Draws the coefficients of two columns together, and leaves a third alone: by position."""

    variance: float = 1.0
    one: int = 2
    other: int = 3
    free: int = 4
    strength: float = 1e4

    def separable(self, names):
        l2 = np.full(len(names), 1 / self.variance)
        l2[self.free] = 0.0
        return Penalty(np.zeros(len(names)), l2)

    def with_variance(self, variance):
        return replace(self, variance=variance)

    def smooth(self, names):
        a = np.zeros(len(names))
        a[[self.one, self.other]] = [1.0, -1.0]
        return Square(a, self.strength)


@dataclass(frozen=True)
class Graded(Prior):
    """λ rises with the place of the column, and one that the size of another decides."""

    adaptive = True
    variance: float = 1.0
    exclude: tuple = ()

    def separable(self, names):
        return self._with(names, np.ones(len(names)))

    def next_penalty(self, names, beta, before):
        return self._with(names, 0.5 + np.abs(beta))

    def _with(self, names, size):
        l1 = (1.0 + np.arange(len(names))) / np.sqrt(self.variance) / size
        return Penalty(np.where(self.excluded(names), 0.0, l1), np.zeros(len(names)))

    def with_variance(self, variance):
        return replace(self, variance=variance)


def fitted(make, X, y, **given):
    m = make.fit(X, y, **given)
    assert m.converged_
    return m


@pytest.mark.sampled
@pytest.mark.parametrize("family", PLAIN)
@pytest.mark.parametrize("prior", [SumToZero(1.0, 1e-3), Difference()])
def test_with_fixed_coefficients_the_objective_is_that_of_all_columns(prior, family, rng):
    """Optimality of the coefficients that are estimated, with the others at their values."""
    c = case(family, rng)
    fixed = {0: 0.4, 1: -0.2}
    m = fitted(c.make(prior=prior), c.X, c.y, **c.extras, fixed=fixed)
    by_hand = {
        SumToZero: Square(np.ones(5), 1e3),
        Difference: Square(np.array([0, 0, 1.0, -1.0, 0]), 1e4),
    }[type(prior)]
    pull = by_hand.gradient(m.coef_[:, None])[:, 0] + prior.separable("abcde").l2 * m.coef_
    # The same likelihood, with a linear term in the place of the prior's slope, is at its optimum.
    tilted = fitted(c.make(prior=Tilted(tuple(pull))), c.X, c.y, **c.extras, fixed=fixed)
    np.testing.assert_allclose(tilted.coef_, m.coef_, atol=1e-5)
    if isinstance(prior, Difference):
        assert abs(m.coef_[2] - m.coef_[3]) < 0.05


@dataclass(frozen=True)
class Tilted(Prior):
    """A linear term a'β with next to no ridge."""

    slope: tuple = ()

    def separable(self, names):
        return Penalty(np.zeros(len(names)), np.full(len(names), 1e-9))

    def with_variance(self, variance):
        raise NotImplementedError

    def smooth(self, names):
        return Linear(np.array(self.slope))


@dataclass(frozen=True)
class Linear:
    """a'β."""

    a: np.ndarray

    def value(self, beta):
        return self.a @ beta

    def gradient(self, beta):
        return np.broadcast_to(self.a[:, None], beta.shape).copy()

    def hessian(self, beta, columns):
        return np.zeros((len(columns), len(columns)))


@pytest.mark.parametrize("storage", [np.asarray, pd.DataFrame])
def test_penalties_by_position_stay_with_their_columns(storage, rng):
    c = case("logistic", rng)
    X = pd.DataFrame(c.X, columns=[f"x{j}" for j in range(5)])
    X = X if storage is pd.DataFrame else c.X
    m = fitted(LogisticRegression(prior=Graded(2.0, exclude=[3])), X, c.y, fixed={0: 0.4})
    weights = (1.0 + np.arange(5)) / np.sqrt(2.0) / (0.5 + np.abs(m.coef_))
    expected = LogisticRegression(
        prior=Laplace([*(2 / weights[[1, 2]] ** 2), 1.0, 2 / weights[4] ** 2], exclude=[2])
    ).fit(c.X[:, 1:], c.y, offset=0.4 * c.X[:, 0])
    np.testing.assert_allclose(m.coef_[1:], expected.coef_, atol=1e-6)


def survival(rng, n=200):
    X = rng.normal(size=(n, 3))
    time = np.ceil(4 * rng.exponential(np.exp(-0.4 * X[:, 0] + 0.3 * X[:, 1])))
    return X, Surv(time, rng.random(n) < 0.8)


def pieces(X, y, cut):
    """Rows cut at a time, with the first column in two."""
    late = y["time"] > cut
    Z = np.column_stack([X[:, :1], np.zeros((len(X), 1)), X[:, 1:]])
    more = np.column_stack([np.zeros((late.sum(), 1)), X[late]])
    event = y["event"] * ~late
    time = np.minimum(y["time"], cut)
    cut_at = np.full(late.sum(), float(cut))
    outcome = Surv(
        np.concatenate([time, y["time"][late]]),
        np.concatenate([event, y["event"][late]]),
        np.concatenate([np.zeros(len(X)), cut_at]),
    )
    return np.vstack([Z, more]), outcome


@pytest.mark.parametrize("prior", [SumToZero(0.5, 1e-3), ReweightedLaplace(0.2)])
def test_effects_by_step_have_the_recipe_s_prior_as_columns_of_pieces_do(prior, rng):
    X, y = survival(rng)
    found = fitted(CoxRegression(prior=prior, time_varying={0: [3.0]}), X, y)
    Z, outcome = pieces(X, y, 3.0)
    expected = fitted(CoxRegression(prior=prior), Z, outcome)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-6)


def test_effects_by_step_have_their_column_s_penalty(rng):
    X, y = survival(rng)
    found = fitted(CoxRegression(prior=Graded(0.5), time_varying={1: [3.0]}), X, y)
    of = np.array([0, 1, 1, 2])
    weights = (1.0 + of) / np.sqrt(0.5) / (0.5 + np.abs(found.coef_))
    names = ["x0", "x1@(0,3]", "x1@(3,inf)", "x2"]
    Z, outcome = pieces(X[:, [1, 0, 2]], y, 3.0)
    by = Laplace(list(2 / weights[[1, 2, 0, 3]] ** 2))
    expected = fitted(CoxRegression(prior=by), Z, outcome)
    np.testing.assert_allclose(found.coef_[[1, 2, 0, 3]], expected.coef_, atol=1e-6)
    assert list(found.summary().index) == names
    for exclude, free in ((["x1@(3,inf)"], [2]), (["x1"], [1, 2]), ([1], [1, 2]), ([-1], [3])):
        prior = Graded(1e-4, exclude=tuple(exclude))
        m = fitted(CoxRegression(prior=prior, time_varying={1: [3.0]}), X, y)
        assert np.flatnonzero(m.coef_).tolist() == free
    with pytest.raises(DataError, match="exclude names 'age', which is not a column"):
        CoxRegression(prior=Graded(exclude=("age",)), time_varying={1: [3.0]}).fit(X, y)


@pytest.mark.parametrize("prior", [SumToZero(0.5, 1e-4), ReweightedLaplace(0.2), Graded(0.5)])
def test_changes_with_time_of_pooled_models_have_the_recipe_s_prior(prior, rng):
    X, y = survival(rng)
    model = PooledLogisticRegression(interval=2.0, baseline=1, time_varying={0: 1}, prior=prior)
    m = fitted(model, X, y)
    assert len(m.coef_) == 4
    if isinstance(prior, SumToZero):
        assert abs(m.coef_.sum()) < 1e-2


def test_what_joins_particular_columns_is_refused_where_columns_have_several_coefficients(rng):
    X, y = survival(rng)
    with pytest.raises(DataError, match=r"Difference combines particular columns.*of_copies"):
        CoxRegression(prior=Difference(1.0, 0, 1, 2), time_varying={0: [3.0]}).fit(X, y)
    with pytest.raises(DataError, match=r"Pairs combines columns.*of_copies"):
        CoxRegression(prior=Pairs(), time_varying={0: [3.0]}).fit(X, y)


@dataclass(frozen=True)
class Pairs(Prior):
    """The norm of the first two columns."""

    variance: float = 1.0

    def separable(self, names):
        return Penalty(self.group_penalty(names).l1, np.zeros(len(names)))

    def group_penalty(self, names):
        return GroupPenalty(np.full(len(names), np.sqrt(3 / self.variance)), (np.array([0, 1]),))

    def with_variance(self, variance):
        return replace(self, variance=variance)


def test_a_group_that_a_given_coefficient_cuts_is_refused(rng):
    c = case("logistic", rng)
    with pytest.raises(DataError, match="coefficient of 'x1' is fixed, and Pairs combines it"):
        LogisticRegression(prior=Pairs()).fit(c.X, c.y, fixed={1: 0.1})
    found = fitted(LogisticRegression(prior=Pairs(0.02)), c.X, c.y, fixed={3: 0.1})
    X, offset = np.delete(c.X, 3, axis=1), 0.1 * c.X[:, 3]
    whole = LogisticRegression(prior=Pairs(0.02)).fit(X, c.y, offset=offset)
    np.testing.assert_allclose(np.delete(found.coef_, 3), whole.coef_, atol=1e-7)


@pytest.mark.parametrize("prior", [SumToZero(1.0, 1e-3), Graded(), Difference(free=1)])
def test_cross_validation_copies_and_pickles_know_the_columns(prior, rng):
    c = case("logistic", rng)
    cv = CrossValidation(3, search=[0.05, 0.5], random_state=1)
    m = c.make(prior=prior, cv=cv).fit(c.X, c.y, fixed={0: 0.3})
    assert isinstance(m.prior_, type(prior))
    assert m.prior_.variance == m.variance_
    alone = c.make(prior=prior.with_variance(m.variance_)).fit(c.X, c.y, fixed={0: 0.3})
    np.testing.assert_allclose(m.coef_, alone.coef_, atol=1e-6)
    again = pickle.loads(pickle.dumps(m))
    if isinstance(prior, Graded):
        assert again.summary()["se"].isna().all()
    else:
        m.summary()
        again = pickle.loads(pickle.dumps(m))
        pd.testing.assert_frame_equal(again.summary(), m.summary())
    draws = m.inference.bootstrap(2, random_state=1)
    assert draws.coef.shape == (2, 5)
    assert type(prior).__name__ in str(m)


def test_compared_settings_of_a_recipe_go_with_fixed(rng):
    c = case("logistic", rng)
    cv = CrossValidation(3, search=[0.5], compare={"sum_variance": [1e-4, 10.0]}, random_state=1)
    m = c.make(prior=SumToZero(), cv=cv).fit(c.X, c.y, fixed={0: 0.3})
    assert m.prior_.sum_variance in (1e-4, 10.0)


@dataclass(frozen=True)
class NormalAndSum(Normal):
    """A subclass of a prior of the library that says more."""

    def smooth(self, names):
        a = np.zeros(len(names))
        a[2] = 1.0
        return Square(a, 1e6)


def test_a_subclass_that_says_more_is_asked_about_all_columns(rng):
    c = case("logistic", rng)
    m = fitted(c.make(prior=NormalAndSum(1.0, exclude=["x3"])), c.X, c.y, fixed={0: 0.4})
    assert abs(m.coef_[2]) < 1e-3
    assert np.abs(np.delete(m.coef_, 2)).min() > 1e-3


def test_settings_are_told_from_columns_by_their_name_not_their_length(rng):
    """Two variances of groups to choose from, and two columns."""
    c = case("logistic", rng, p=2)
    cv = CrossValidation(3, search=[0.5], random_state=1)
    prior = Hierarchical([0, 0], group_variance=[0.01, 10.0])
    m = c.make(prior=prior, cv=cv).fit(c.X, c.y, fixed={0: 0.3})
    assert set(m.cv_results_["group_variance"]) == {0.01, 10.0}
    X, y = survival(rng)
    m = CoxRegression(prior=prior, cv=cv, time_varying={0: [3.0]}).fit(X[:, :2], y)
    assert set(m.cv_results_["group_variance"]) == {0.01, 10.0}


@pytest.mark.parametrize("number", [4, 6])
def test_variances_are_as_many_as_the_columns_of_x(number, rng):
    c = case("logistic", rng)
    with pytest.raises(DataError, match=rf"5 columns, not {number}"):
        c.make(prior=Laplace(np.ones(number))).fit(c.X, c.y, fixed={0: 0.3})
    X, y = survival(rng)
    with pytest.raises(DataError, match="3 columns, not 5"):
        CoxRegression(prior=Normal(np.ones(5)), time_varying={0: [3.0]}).fit(X, y)
    own = CoxRegression(prior=Normal([0.1, 0.2, 1.0, 1.0]), time_varying={0: [3.0]}).fit(X, y)
    assert own.prior_.variance == [0.1, 0.2, 1.0, 1.0]  # one for each coefficient


def test_variances_in_a_series_are_taken_by_position(rng):
    c = case("logistic", rng)
    given = [0.1, 0.2, 0.3, 0.4, 0.5]
    a, b = (
        c.make(prior=Normal(v)).fit(c.X, c.y, fixed={1: 0.3}).coef_
        for v in (given, pd.Series(given, index=[4, 3, 2, 1, 0]))
    )
    np.testing.assert_array_equal(a, b)


@dataclass(frozen=True)
class Mistaken(Prior):
    """A prior with one mistake in an answer."""

    mistake: str = ""

    def separable(self, names):
        p = len(names)
        l1 = {
            "short": np.zeros(p - 1),
            "number": 0.0,
            "missing": np.full(p, np.nan),
            "negative": np.full(p, -1.0),
        }.get(self.mistake, np.zeros(p))
        return (l1, l1) if self.mistake == "tuple" else Penalty(l1, np.ones(p))

    def with_variance(self, variance):
        return self

    def smooth(self, names):
        return MistakenTerm(self.mistake)


@dataclass(frozen=True)
class MistakenTerm:
    mistake: str

    def value(self, beta):
        return 0.0 if self.mistake == "value" else 0.5 * (beta**2).sum(axis=0)

    def gradient(self, beta):
        return beta[:, 0] if self.mistake == "gradient" else beta

    def hessian(self, beta, columns):
        return np.eye(len(beta) if self.mistake == "hessian" else len(columns))


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("short", r"one λ and one κ for each of the 5 columns, .* shape \(4,\)"),
        ("number", r"one λ and one κ for each of the 5 columns, .* shape \(\)"),
        ("missing", "l1=nan for column 0: it must be zero or positive"),
        ("negative", "l1=-1 for column 0: it must be zero or positive"),
        ("tuple", "Mistaken.separable must return a Penalty, not tuple"),
        ("value", r"Mistaken has a wrong value: .* shape \(2,\), not \(\)"),
        ("gradient", r"Mistaken has a wrong gradient: .* shape \(5, 2\), not \(5,\)"),
        ("hessian", r"Mistaken has a wrong hessian: .* shape \(2, 2\), not \(5, 5\)"),
    ],
)
@pytest.mark.parametrize("fixed", [None, {0: 0.3}])
def test_a_wrong_answer_of_a_prior_is_named(mistake, message, fixed, rng):
    c = case("logistic", rng)
    with pytest.raises(DataError, match=message):
        c.make(prior=Mistaken(mistake)).fit(c.X, c.y, fixed=fixed)
