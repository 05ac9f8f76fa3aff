"""Cross-validation by other scores than log-likelihoods: refits, and the metrics of peers."""

import numpy as np
import pytest
from sklearn.metrics import (
    balanced_accuracy_score,
    brier_score_loss,
    log_loss,
    mean_gamma_deviance,
    mean_poisson_deviance,
    mean_squared_error,
    roc_auc_score,
)
from sklearn.model_selection import KFold
from sksurv.metrics import concordance_index_censored

from steropes import (
    ConditionalLogisticRegression,
    CoxRegression,
    CrossValidation,
    CumulativeProbabilityModel,
    CyclopsSearch,
    DataError,
    FineGrayRegression,
    GammaRegression,
    Laplace,
    LinearRegression,
    LogisticRegression,
    Normal,
    PoissonRegression,
    PooledLogisticRegression,
    Surv,
    integrated_brier_score,
    plots,
)
from steropes.models.families.survival_families import EVENT_TIME_QUANTILES

RNG = np.random.default_rng(17)
N = 160
X = RNG.normal(size=(N, 6)) + np.arange(6)
ETA = 0.8 * X[:, 0] - 0.5 * (X[:, 1] - 1)
Y = RNG.binomial(1, 1 / (1 + np.exp(-ETA)))
COUNT = RNG.poisson(np.exp(ETA))
TIME, CAUSE = RNG.exponential(np.exp(-ETA)), RNG.choice([0, 1, 1, 2], N)
POSITIVE = RNG.gamma(2.0, np.exp(ETA))
CONTINUOUS = np.round(ETA + RNG.normal(size=N), 1)
SPLITS = list(KFold(4, shuffle=True, random_state=1).split(X))
GRID = [0.003, 0.03, 0.3]


def table(model, y, scoring, **given):
    cv = CrossValidation(SPLITS, search=GRID, scoring=scoring, tol=1e-9)
    return model(prior=Laplace(), cv=cv).fit(X, y, **given).cv_results_


def by_refits(model, y, score, **given):
    out = []
    for variance in GRID:
        scores = []
        for train, test in SPLITS:
            rows = {name: x[train] for name, x in given.items()}
            m = model(prior=Laplace(variance), tol=1e-10).fit(X[train], y[train], **rows)
            scores.append(score(m, test))
        out.append(scores)
    return np.array(out)


def probability(m, rows):
    return m.predict_proba(X[rows])[:, 1]


CASES = {
    "auc": (LogisticRegression, Y, lambda m, i: roc_auc_score(Y[i], probability(m, i))),
    "brier": (LogisticRegression, Y, lambda m, i: -brier_score_loss(Y[i], probability(m, i))),
    "deviance": (LogisticRegression, Y, lambda m, i: -2 * log_loss(Y[i], probability(m, i))),
    "neg_log_loss": (LogisticRegression, Y, lambda m, i: -log_loss(Y[i], probability(m, i))),
    "balanced_accuracy": (
        LogisticRegression, Y, lambda m, i: balanced_accuracy_score(Y[i], m.predict(X[i])),
    ),
    "mse": (
        LinearRegression, CONTINUOUS,
        lambda m, i: -mean_squared_error(CONTINUOUS[i], m.predict(X[i])),
    ),
    "neg_mean_gamma_deviance": (
        GammaRegression, POSITIVE,
        lambda m, i: -mean_gamma_deviance(POSITIVE[i], m.predict(X[i])),
    ),
    "neg_mean_poisson_deviance": (
        PoissonRegression, COUNT,
        lambda m, i: -mean_poisson_deviance(COUNT[i], m.predict(X[i])),
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("scoring", CASES)
def test_scores_are_those_of_refits(scoring):
    model, y, score = CASES[scoring]
    found = table(model, y, scoring)
    expected = by_refits(model, y, score)
    np.testing.assert_allclose(found[[f"fold{k}" for k in range(4)]], expected, rtol=1e-5)
    np.testing.assert_allclose(found["mean"], expected.mean(axis=1), rtol=1e-5)
    np.testing.assert_allclose(found["se"], expected.std(axis=1, ddof=1) / 2, rtol=1e-4)
    assert list(found.columns[:5]) == ["variance", "mean", "se", "log_likelihood", "nonzero"]


def test_the_best_score_is_chosen_and_the_log_likelihoods_are_in_the_table():
    cv = CrossValidation(SPLITS, search=GRID, tol=1e-9)
    plain = LogisticRegression(prior=Laplace(), cv=cv).fit(X, Y)
    found = table(LogisticRegression, Y, "auc")
    np.testing.assert_allclose(found["log_likelihood"], plain.cv_results_["mean"], rtol=1e-9)
    chosen = LogisticRegression(
        prior=Laplace(), cv=CrossValidation(SPLITS, search=GRID, scoring="auc", tol=1e-9)
    ).fit(X, Y)
    assert chosen.variance_ == found["variance"][found["mean"].idxmax()]


def test_the_concordance_is_that_of_scikit_survival():
    y = Surv(TIME, (CAUSE == 1) * 1)

    def score(m, i):
        return concordance_index_censored(CAUSE[i] == 1, TIME[i], m.predict(X[i]))[0]

    expected = by_refits(CoxRegression, y, score)
    np.testing.assert_allclose(table(CoxRegression, y, "concordance")["mean"], expected.mean(1))

    def as_callable(m, rows, y):
        return concordance_index_censored(y["event"] == 1, y["time"], m.predict(rows))[0]

    np.testing.assert_allclose(table(CoxRegression, y, as_callable)["mean"], expected.mean(1))


@pytest.mark.sampled
@pytest.mark.parametrize("family", [CoxRegression, FineGrayRegression])
@pytest.mark.parametrize("stratified", [False, True])
def test_the_brier_score_of_a_survival_model_is_that_of_its_predictions(family, stratified):
    cause = CAUSE if family is FineGrayRegression else (CAUSE == 1) * 1
    y = Surv(TIME, cause)
    strata = np.arange(N) % 2
    given = {"strata": strata} if stratified else {}

    def score(m, i):
        times = np.quantile(TIME[cause == 1], EVENT_TIME_QUANTILES)
        train = np.setdiff1d(np.arange(N), i)
        last = [TIME[i].max()] + [
            TIME[train][strata[train] == s].max() if stratified else TIME[train].max()
            for s in (0, 1)
        ]
        times = times[times < min(last)]
        own = {"strata": strata[i]} if stratified else {}
        if family is CoxRegression:
            risk = 1 - m.predict_survival(X[i], times, **own)
        else:
            risk = m.predict_cumulative_incidence(X[i], times, **own)
        return -integrated_brier_score(risk, y[i], times, train=y)

    expected = by_refits(family, y, score, **given).mean(axis=1)
    np.testing.assert_allclose(table(family, y, "brier", **given)["mean"], expected, rtol=1e-5)


@pytest.mark.parametrize("family", [CoxRegression, FineGrayRegression])
def test_weights_repeat_rows_in_the_brier_score_of_a_survival_model(family):
    y = Surv(TIME, CAUSE if family is FineGrayRegression else (CAUSE == 1) * 1)
    w, fold = RNG.integers(1, 4, N), np.arange(N) % 4
    r = np.repeat(np.arange(N), w)
    ties = {"ties": "breslow"} if family is CoxRegression else {}

    def mean(rows, **given):
        part = fold[rows]
        folds = [(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(4)]
        cv = CrossValidation(folds, search=[0.01, 0.1], scoring="brier")
        m = family(prior=Laplace(), cv=cv, **ties)
        return m.fit(X[rows], y[rows], **given).cv_results_["mean"]

    np.testing.assert_allclose(mean(np.arange(N), sample_weight=w), mean(r), rtol=1e-5)


def test_the_concordance_of_other_families():
    y = Surv(TIME, CAUSE)
    expected = by_refits(FineGrayRegression, y, lambda m, i: m.validation.concordance(X[i], y[i]))
    found = table(FineGrayRegression, y, "concordance")
    np.testing.assert_allclose(found["mean"], expected.mean(axis=1))

    def ordered(m, i):  # share of pairs with different outcomes in the same order
        eta, y = m.linear_predictor(X[i]), CONTINUOUS[i]
        above = y[:, None] > y
        right = (eta[:, None] > eta) + 0.5 * np.isclose(eta[:, None], eta, rtol=1e-12, atol=0)
        return (above * right).sum() / above.sum()

    expected = by_refits(CumulativeProbabilityModel, CONTINUOUS, ordered)
    found = table(CumulativeProbabilityModel, CONTINUOUS, "concordance")
    np.testing.assert_allclose(found["mean"], expected.mean(axis=1))


def test_a_deviance_is_minus_twice_the_log_likelihood_for_each_unit_of_weight():
    w = RNG.integers(0, 3, N).astype(float)
    y = Surv(TIME, (CAUSE == 1) * 1)
    by_likelihood = table(CoxRegression, y, "held_out", sample_weight=w)
    found = table(CoxRegression, y, "deviance", sample_weight=w)
    for k, (_, test) in enumerate(SPLITS):
        expected = 2 * by_likelihood[f"fold{k}"] / w[test].sum()
        np.testing.assert_allclose(found[f"fold{k}"], expected)
    cv = CrossValidation(2, search=[0.1, 1.0], scoring="deviance", random_state=0)
    sets = ConditionalLogisticRegression(prior=Normal(), cv=cv)
    sets.fit(X, np.arange(N) % 4 == 0, strata=np.arange(N) // 4)
    assert (sets.cv_results_["mean"] < 0).all()


def test_the_deviance_of_a_gamma_model_is_that_of_scikit_learn():
    found = table(GammaRegression, POSITIVE, "deviance")["mean"]
    expected = table(GammaRegression, POSITIVE, "neg_mean_gamma_deviance")["mean"]
    np.testing.assert_allclose(found, expected)


def test_weights_and_offsets_count():
    w, offset = RNG.integers(0, 3, N).astype(float), 0.5 * RNG.normal(size=N)
    given = {"sample_weight": w, "offset": offset}

    def score(m, i):
        return roc_auc_score(Y[i], m.linear_predictor(X[i], offset[i]), sample_weight=w[i])

    expected = by_refits(LogisticRegression, Y, score, **given).mean(axis=1)
    for scoring in ("auc", "roc_auc"):
        found = table(LogisticRegression, Y, scoring, **given)["mean"]
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("scoring", ["auc", "brier", "deviance"])
def test_the_search_finds_the_best_of_a_fine_grid(scoring):
    cv = CrossValidation(5, scoring=scoring, random_state=0)
    found = LogisticRegression(prior=Laplace(), cv=cv).fit(X, Y)
    grid = np.geomspace(*found.cv_results_["variance"].iloc[[0, -1]], 25)
    fine = CrossValidation(5, search=grid, scoring=scoring, random_state=0)
    best = LogisticRegression(prior=Laplace(), cv=fine).fit(X, Y).cv_results_
    at = best["mean"].idxmax()
    chosen = found.cv_results_.set_index("variance").loc[found.variance_]
    assert chosen["mean"] > best["mean"][at] - 0.2 * best["se"][at]
    assert len(found.cv_results_) < 25


def test_a_deviance_chooses_nearly_as_the_log_likelihood():
    cv = [CrossValidation(8, scoring=s, random_state=0) for s in ("held_out", "deviance")]
    a, b = (LogisticRegression(prior=Normal(), cv=c).fit(X, Y).variance_ for c in cv)
    assert abs(np.log(a / b)) < 0.35


def test_draws_that_choose_again_use_the_score():
    cv = CrossValidation(4, search=GRID, scoring="auc", random_state=0)
    m = LogisticRegression(prior=Laplace(), cv=cv).fit(X, Y)
    draws = m.inference.bootstrap(3, reselect=True, random_state=0)
    assert set(draws.variance) <= set(GRID)


def test_the_plot_names_the_score():
    cv = CrossValidation(4, search=GRID, scoring="auc", random_state=0)
    m = LogisticRegression(prior=Laplace(), cv=cv).fit(X, Y)
    assert plots.cross_validation_curve(m).get_ylabel() == "Held-out score (auc)"


@pytest.mark.parametrize(
    ("model", "y", "scoring"),
    [
        (LinearRegression, CONTINUOUS, "auc"),
        (CoxRegression, Surv(TIME, (CAUSE == 1) * 1), "roc_auc"),
        (LogisticRegression, Y, "nothing"),
        (PoissonRegression, COUNT, "brier"),
    ],
)
def test_scores_that_a_family_does_not_have_are_refused(model, y, scoring):
    with pytest.raises(DataError, match=r"scoring=.* is not defined for .*'deviance'"):
        table(model, y, scoring)


def test_held_out_rows_of_one_class_are_refused_by_name():
    by = np.argsort(Y)
    splits = [(by[40:], by[:40])]
    cv = CrossValidation(splits, search=GRID, scoring="auc")
    with pytest.raises(DataError, match="fold 0"):
        LogisticRegression(prior=Laplace(), cv=cv).fit(X, Y)
    published = LogisticRegression(
        prior=Laplace(), cv=CrossValidation(4, search=CyclopsSearch(), scoring="auc")
    )
    with pytest.raises(DataError, match="CyclopsSearch"):
        published.fit(X, Y)


@pytest.mark.sampled
@pytest.mark.parametrize("time", [{"baseline": 1}, {"baseline": 2, "time_varying": {0: 1}}])
@pytest.mark.parametrize("scoring", ["auc", "brier"])
def test_scores_of_pooled_models_are_over_intervals_at_risk(scoring, time):
    until = np.minimum(TIME, 3.0)
    y = Surv(until, (TIME <= 3.0) & (CAUSE == 1))
    weight = RNG.integers(0, 3, N) * 1.0
    number = np.maximum(np.ceil(until / 0.5), 1).astype(int)
    settings = {"interval": 0.5, "prior": Laplace()} | time

    def score(m, i):
        person = np.repeat(i, number[i])
        k = np.concatenate([np.arange(m) for m in number[i]])
        curves = m.predict_survival(X[i], 0.5 * np.arange(7))
        hazard = 1 - curves[:, 1:] / curves[:, :-1]
        risk = np.concatenate([hazard[a, : number[p]] for a, p in enumerate(i)])
        event = (y["event"][person] == 1) & (k == number[person] - 1)
        if scoring == "auc":
            return roc_auc_score(event, risk, sample_weight=weight[person])
        return -np.average((event - risk) ** 2, weights=weight[person])

    cv = CrossValidation(SPLITS, search=GRID, scoring=scoring, tol=1e-9)
    m = PooledLogisticRegression(**settings, cv=cv).fit(X, y, sample_weight=weight)
    expected = []
    for train, test in SPLITS:
        at = {"sample_weight": weight[train]}
        fit = PooledLogisticRegression(**(settings | {"prior": Laplace(GRID[1])}), tol=1e-10)
        expected.append(score(fit.fit(X[train], y[train], **at), test))
    found = m.cv_results_.iloc[1][[f"fold{k}" for k in range(4)]]
    np.testing.assert_allclose(found.astype(float), expected, rtol=1e-5)


@pytest.mark.parametrize("method", ["exact", "efron"])
def test_the_concordance_of_conditional_models_is_within_strata(method):
    strata = np.arange(N) // 4
    rng = np.random.default_rng(1)
    y = np.zeros(N, int)
    for s in range(N // 4):
        odds = np.exp(ETA[4 * s : 4 * s + 4])
        cases = rng.choice(4, 1 + s % 2, replace=False, p=odds / odds.sum())
        y[4 * s + cases] = 1
    y[:4] = 0  # a stratum without a case
    weight = np.repeat(rng.integers(1, 4, N // 4), 4) * 1.0
    splits = [np.flatnonzero(strata % 4 == k) for k in range(4)]
    folds = [(np.setdiff1d(np.arange(N), test), test) for test in splits]
    cv = CrossValidation(folds, search=GRID, scoring="concordance", tol=1e-9)
    m = ConditionalLogisticRegression(method=method, prior=Laplace(), cv=cv)
    m.fit(X, y, strata=strata, sample_weight=weight)
    expected = []
    for train, test in folds:
        fit = ConditionalLogisticRegression(method=method, prior=Laplace(GRID[2]), tol=1e-10)
        fit.fit(X[train], y[train], strata=strata[train], sample_weight=weight[train])
        eta = X @ fit.coef_
        right = pairs = 0.0
        for i in test[y[test] == 1]:
            for j in test[(y[test] == 0) & (strata[test] == strata[i])]:
                w = weight[i] * (1.0 if method == "exact" else weight[j])
                pairs += w
                right += w * (eta[i] > eta[j])
        expected.append(right / pairs)
    found = m.cv_results_.iloc[2][[f"fold{k}" for k in range(4)]]
    np.testing.assert_allclose(found.astype(float), expected, rtol=1e-9)


def test_scores_without_a_meaning_are_refused_for_pooled_and_conditional_models():
    y = Surv(TIME, CAUSE == 1)
    for scoring in ("concordance", "mse", "roc_auc", lambda m, rows, y: 0.0):
        cv = CrossValidation(3, search=GRID, scoring=scoring, random_state=0)
        with pytest.raises(DataError, match="not defined for PooledLogisticRegression"):
            PooledLogisticRegression(interval=0.5, prior=Laplace(), cv=cv).fit(X, y)
    case, strata = np.arange(N) % 4 == 0, np.arange(N) // 4
    for scoring in ("auc", "brier", lambda m, rows, y: 0.0):
        cv = CrossValidation(3, search=GRID, scoring=scoring, random_state=0)
        with pytest.raises(DataError, match="not defined for ConditionalLogisticRegression"):
            ConditionalLogisticRegression(prior=Laplace(), cv=cv).fit(X, case, strata=strata)
