"""The estimator among others: scikit-learn's rules, pickles, predictions, diagnostics, pictures."""

import pickle

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from steropes import DataError, Normal
from steropes.models.cumulative import Censored, CumulativeProbabilityModel, compare_links

Model = CumulativeProbabilityModel


@pytest.mark.sampled
@parametrize_with_checks([Model(prior=Normal())])
def test_scikit_learn(estimator, check):
    check(estimator)


def test_names_tables_and_pickle(data):
    X, y = data
    X = pd.DataFrame(X, columns=["a", "b", "c"])
    m = Model().fit(X, y)
    assert list(m.summary().index) == ["a", "b", "c"]
    assert list(m.summary().columns) == [
        "coef",
        "lower",
        "upper",
        "exp(coef)",
        "exp(lower)",
        "exp(upper)",
        "se",
        "z",
        "p",
    ]
    pd.testing.assert_frame_equal(m.confint(), m.summary()[["lower", "upper"]])
    assert list(m.confint(["b", -1]).index) == ["b", "c"]
    assert (m.confint("a", method="robust") != m.confint("a")).to_numpy().any()
    with pytest.raises(DataError, match="no coefficient 'z'"):
        m.confint("z")
    again = pickle.loads(pickle.dumps(m))
    pd.testing.assert_frame_equal(again.summary(), m.summary())
    before, after = m.predict_mean(X, level=0.9), again.predict_mean(X, level=0.9)
    np.testing.assert_array_equal(before.se, after.se)
    bare = pickle.loads(pickle.dumps(clone(m).fit(X, y)))
    with pytest.raises(DataError, match="pickl"):
        bare.summary()
    with pytest.raises(DataError, match="need the data, which a pickle leaves out"):
        again.predict_mean(X, level=0.9, kind="robust")
    np.testing.assert_allclose(bare.predict_mean(X), before.estimate)


def test_array_rows_for_a_model_of_a_data_frame(data):
    """As for other estimators, X without names is taken by position."""
    X, y = data
    m = Model().fit(pd.DataFrame(X, columns=["a", "b", "c"]), y)
    for f in (m.predict_mean, lambda X: m.predict_cdf(X, [1.0, 5.0]), m.predict_quantile):
        np.testing.assert_array_equal(f(X), f(pd.DataFrame(X, columns=["a", "b", "c"])))
    with pytest.raises(DataError, match="column 0 was 'a' and is 'b'"):
        m.predict_mean(pd.DataFrame(X, columns=["b", "a", "c"]))


def test_summary_and_confint_agree_on_clusters(data):
    X, y = data
    m, label = Model().fit(X, y), np.arange(len(y)) // 4
    table = m.summary(0.9, cluster=label)
    np.testing.assert_allclose(table["se"], np.sqrt(np.diag(m.vcov(cluster=label))))
    ends = m.confint(level=0.9, cluster=label)
    np.testing.assert_allclose(table[["lower", "upper"]], ends)


def test_pickle_with_interval_censoring(data):
    X, y = data
    m = Model().fit(X, Censored(y - 1 - np.arange(len(y)) % 3, y))
    m.alpha_summary()
    again = pickle.loads(pickle.dumps(m))
    np.testing.assert_allclose(again.predict_mean(X, level=0.9).se, m.predict_mean(X, level=0.9).se)


def test_pipeline_and_splitters(data):
    from sklearn.model_selection import cross_val_score

    X, y = data
    low, high = y.copy(), y.copy()
    low[y < 2], high[y < 2] = -np.inf, 2
    pipe = make_pipeline(StandardScaler(), Model())
    assert pipe.fit(X, Censored(low, high)).predict(X).shape == (len(y),)
    assert len(cross_val_score(pipe, X, y, cv=3)) == 3
    with pytest.raises(DataError, match="without censoring"):
        pipe.score(X, Censored(low, high))


def test_shapes_and_ends_of_predictions(data):
    X, y = data
    m = Model(link="cloglog").fit(X, y)
    points = [-1.0, y.min(), np.median(y), y.max(), 1e9]
    F = m.predict_cdf(X, points)
    assert F.shape == (len(y), 5)
    assert (F[:, 0] == 0).all()
    assert (F[:, 3:] == 1).all()
    assert (np.diff(F, axis=1) >= 0).all()
    np.testing.assert_allclose(m.predict_exceedance(X, points), 1 - F, atol=1e-14)
    assert m.predict_cdf(X, 3.0).shape == (len(y),)
    between = 0.5 * (m.levels_[4] + m.levels_[5])
    np.testing.assert_array_equal(m.predict_cdf(X, between), m.predict_cdf(X, m.levels_[4]))
    out = m.predict_exceedance(X, points, level=0.9)
    assert (out.lower <= out.estimate).all()
    assert (out.estimate <= out.upper).all()


@pytest.mark.parametrize("link", ["logit", "probit", "loglog", "cloglog", "cauchit"])
def test_quantile_is_the_first_outcome_with_that_probability(link, data):
    X, y = data
    m = Model(link=link).fit(X, y)
    q = np.array([0.001, 0.1, 0.5, 0.9, 0.999])
    F = m.predict_cdf(X[:20], m.levels_)
    expected = np.array([[m.levels_[np.argmax(row >= p - 1e-12)] for p in q] for row in F])
    np.testing.assert_array_equal(m.predict_quantile(X[:20], q), expected)
    out = m.predict_quantile(X[:20], q, level=0.95)
    assert (out.lower <= out.estimate).all()
    assert (out.estimate <= out.upper).all()
    # A probability that is exactly one of the steps belongs to that step.
    exact = m.predict_cdf(X[:1], m.levels_[3])[0]
    assert m.predict_quantile(X[:1], exact)[0] == m.levels_[3]
    with pytest.raises(DataError, match="between 0 and 1"):
        m.predict_quantile(X, 1.0)


@pytest.mark.slow
def test_intervals_cover():
    """95 % intervals of a probability, a mean and a median hold the truth in about 95 %."""
    rng = np.random.default_rng(12)
    x0, hits = np.array([[0.5, -0.5]]), np.zeros(3)
    truth = 0.5 + 0.5
    for _ in range(120):
        X = rng.normal(size=(150, 2))
        y = X @ [1.0, -1.0] + rng.logistic(size=150)
        m = Model().fit(X, y)
        F = m.predict_cdf(x0, truth, level=0.95)
        mean, median = m.predict_mean(x0, level=0.95), m.predict_quantile(x0, 0.5, level=0.95)
        hits += [
            F.lower[0] <= 0.5 <= F.upper[0],
            mean.lower[0] <= truth <= mean.upper[0],
            median.lower[0] <= truth <= median.upper[0],
        ]
    assert (hits >= 106).all()


def test_residuals_are_uncorrelated_with_x_for_the_logit(data):
    """The score equations of the logit link are Σ r = 0 and Σ r x = 0."""
    X, y = data
    m = Model().fit(X, y)
    r = m.checks.residuals(X, y)
    F = np.column_stack([np.zeros(len(y)), m.predict_cdf(X, m.levels_)])
    j = np.searchsorted(m.levels_, y)
    np.testing.assert_allclose(r, F[np.arange(len(y)), j] + F[np.arange(len(y)), j + 1] - 1)
    assert abs(r.sum()) < 1e-6
    np.testing.assert_allclose(r @ X, 0, atol=1e-5)


def test_residuals_of_censored_rows(data):
    X, y = data
    low, high = y.copy(), y.copy()
    low[y > 9], high[y > 9] = 9, np.inf
    low[y < 2], high[y < 2] = -np.inf, 2
    m = Model().fit(X, Censored(low, high))
    r = m.checks.residuals(X, Censored(low, high))
    np.testing.assert_allclose(r[y > 9], m.predict_cdf(X[y > 9], 9.0))
    np.testing.assert_allclose(r[y < 2], m.predict_cdf(X[y < 2], 2.0) - 1)
    assert abs(r.sum()) < 1e-6


def test_parallelism_holds_and_fails_where_it_should():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1500, 2))
    right = X @ [1.0, 0.5] + rng.logistic(size=1500)
    wrong = X[:, 0] + rng.logistic(size=1500) * np.exp(0.5 * X[:, 1])
    good, bad = (Model().fit(X, y).checks.parallelism(X, y) for y in (right, wrong))
    assert list(good.test.index) == ["x0", "x1", "GLOBAL"]
    assert good.test["p"].min() > 0.01
    assert bad.test.loc["x1", "p"] < 1e-6
    assert bad.test.loc["GLOBAL", "df"] == 4
    assert good.coefficients.shape == good.se.shape == (3, 2)


def test_links_are_ordered_by_log_likelihood():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(2000, 1))
    table = compare_links(Model(), X, X[:, 0] + rng.gumbel(size=2000))
    assert table.index[0] == "loglog"
    assert table["difference"].iloc[0] == 0
    assert (table["difference"].diff().dropna() <= 0).all()


def test_plot_of_alpha(data):
    matplotlib.use("Agg")
    from matplotlib import pyplot

    X, y = data
    m = Model().fit(X, y)
    ax = m.checks.plot_alpha(scale="log")
    drawn = ax.lines[0].get_xydata()
    np.testing.assert_array_equal(drawn[:, 0], m.thresholds_[m.thresholds_ > 0])
    np.testing.assert_array_equal(drawn[:, 1], m.alpha_[m.thresholds_ > 0])
    assert len(ax.collections) == 1
    pyplot.close(ax.figure)


def test_plot_of_alpha_at_covariates_has_their_bands(data):
    matplotlib.use("Agg")
    from matplotlib import pyplot

    X, y = data
    m = Model().fit(X, y)
    ax = m.checks.plot_alpha(at=X.mean(axis=0), level=0.9)
    drawn = ax.lines[0].get_xydata()[:, 1]
    np.testing.assert_allclose(drawn, m.alpha_ - X.mean(axis=0) @ m.coef_)
    F = m.predict_cdf(X.mean(axis=0)[None], m.thresholds_, level=0.9)
    ends = np.concatenate([p.vertices[:, 1] for p in ax.collections[0].get_paths()])
    assert ends.min() == pytest.approx(logit(F.lower[0]).min())
    # However little straight α̂ is, the straight line leaves it the axis.
    dashed = ax.lines[1].get_xydata()[:, 1]
    assert drawn.min() <= dashed.min()
    assert dashed.max() <= drawn.max()
    pyplot.close(ax.figure)


def test_parallelism_cuts_where_repeated_rows_would_and_under_the_link_that_was_fitted(rng):
    X = rng.normal(size=(150, 2))
    y = np.round(X[:, 0] + rng.logistic(size=150), 1)
    w = np.where(y > 0, 3, 1)
    rows = np.repeat(np.arange(150), w)
    m = Model().fit(X, y, sample_weight=w)
    found = m.checks.parallelism(X, y, sample_weight=w)
    right = m.checks.parallelism(X[rows], y[rows])
    pd.testing.assert_frame_equal(found.coefficients, right.coefficients, rtol=1e-6)
    again = m.set_params(link="probit").checks.parallelism(X, y, sample_weight=w)
    pd.testing.assert_frame_equal(found.coefficients, again.coefficients)


def test_predictions_take_the_labels_of_the_categories(rng):
    X = rng.standard_normal((80, 1))
    codes = np.clip(np.round(X[:, 0] + rng.standard_normal(80)), -1, 1).astype(int) + 1
    labels = ["low", "middle", "high"]
    y = pd.Categorical.from_codes(codes, labels, ordered=True)
    m = CumulativeProbabilityModel().fit(X, y)
    np.testing.assert_array_equal(m.predict_cdf(X, "low"), m.predict_cdf(X, 0))
    np.testing.assert_array_equal(
        m.predict_exceedance(X, labels), m.predict_exceedance(X, [0, 1, 2])
    )
    with pytest.raises(DataError, match="one of the ordered categories"):
        m.predict_cdf(X, ["none"])
