"""Fine-Gray regression with late entry: R, expanded data, Cox, folds, robust errors, refusals."""

import pickle

import numpy as np
import pytest
from scipy import optimize

import steropes
from late_entry_reference import expanded, late_fine_gray_loss, staying_weights
from reference_numbers import data, numbers

X_OF_R = ["male", "mspike", "hgb"]
CASES = {"late months 1": ("mgus2", 1, 0), "late months 2": ("mgus2", 2, 0),
         "late few 1": ("few", 1, 62), "late few strata 1": ("few", 1, 62)}  # fmt: skip


def by_age(name, from_age):
    d = data(name)
    d = d[d["age"] >= from_age]
    return d, steropes.Surv(12 * d["age"] + d["time"], d["code"], 12 * d["age"])


@pytest.mark.parametrize("case", CASES)
def test_fit_is_coxph_of_finegray(case):
    """Months of age: entries, censorings and events are at equal times."""
    name, cause, from_age = CASES[case]
    d, y = by_age(name, from_age)
    given = {"strata": d["stratum"]} if "strata" in case else {}
    m = steropes.FineGrayRegression(cause=cause).fit(d[X_OF_R], y, **given)
    np.testing.assert_allclose(m.coef_, numbers(f"{case} coef"), rtol=1e-6)
    np.testing.assert_allclose(m.vcov().to_numpy(), numbers(f"{case} vcov"), rtol=1e-6, atol=1e-12)
    assert m.log_likelihood_ == pytest.approx(float(numbers(f"{case} loglik")), rel=1e-9)
    if not given:
        new = np.array([[0, 1, 13], [1, 2, 12]])
        curves = m.predict_cumulative_incidence(new, [55 * 12, 65 * 12, 75 * 12, 85 * 12])
        np.testing.assert_allclose(curves, numbers(f"{case} incidence").T, rtol=1e-6)


def people(seed, n=120, p=2, ties=False):
    """Some are there from the start, so that there is always someone."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    first = rng.random(n) < 0.6
    time = rng.exponential(size=n) * np.exp(np.where(first, -0.7 * X[:, 0], 0.3 * X[:, 1]))
    censor = rng.exponential(1.5, n)
    code = np.where(time <= censor, np.where(first, 1, 2), 0)
    time = np.minimum(time, censor)
    entry = np.where(np.arange(n) < n // 3, 0.0, rng.random(n) * time)
    if ties:
        time = np.ceil(time * 10)
        entry = np.minimum(np.floor(entry * 10), time - 1)
    return X, time, code, entry


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("stratified", [False, True])
def test_fit_is_cox_of_the_expanded_data(ties, stratified):
    rng = np.random.default_rng(1)
    X, time, code, entry = people(2, ties=ties)
    w, offset = rng.uniform(0.5, 2, 120), rng.normal(size=120) / 2
    strata = np.arange(120) % 2 if stratified else None
    y = steropes.Surv(time, code, entry)
    m = steropes.FineGrayRegression().fit(X, y, sample_weight=w, offset=offset, strata=strata)
    row, start, stop, event, wt = expanded(time, code, entry, 1, w, strata)
    given = {"sample_weight": wt, "offset": offset[row]}
    new = {}
    if stratified:
        given["strata"], new["strata"] = strata[row], [0, 1, 1]
    cox = steropes.CoxRegression(ties="breslow").fit(
        X[row], steropes.Surv(stop, event, start), **given
    )
    np.testing.assert_allclose(m.coef_, cox.coef_, rtol=1e-7)
    np.testing.assert_allclose(m.vcov("model"), cox.vcov("model"), rtol=1e-7)
    limits = [k.confint("x0", method="profile") for k in (m, cox)]
    np.testing.assert_allclose(*limits, rtol=1e-6)
    assert m.log_likelihood_ == pytest.approx(cox.log_likelihood_, rel=1e-11)
    at = np.quantile(time, [0.1, 0.5, 0.8])
    np.testing.assert_allclose(
        m.predict_cumulative_incidence(X[:3], at, **new),
        1 - cox.predict_survival(X[:3], at, **new), rtol=1e-7,
    )  # fmt: skip
    lasso = [
        k(prior=steropes.Laplace(0.02), tol=1e-10, **s).fit(Z, v, **g).coef_
        for k, s, Z, v, g in (
            (steropes.FineGrayRegression, {}, X, y,
             {"sample_weight": w, "offset": offset, "strata": strata}),
            (steropes.CoxRegression, {"ties": "breslow"}, X[row],
             steropes.Surv(stop, event, start), given),
        )
    ]  # fmt: skip
    np.testing.assert_allclose(*lasso, atol=1e-8)


def test_fit_maximises_the_likelihood_of_its_definition():
    X, time, code, entry = people(12, 60, ties=True)
    w = np.random.default_rng(0).integers(0, 3, 60).astype(float)
    w[:4] = 1
    m = steropes.FineGrayRegression().fit(X, steropes.Surv(time, code, entry), sample_weight=w)

    def loss(b):
        return late_fine_gray_loss(X @ b, time, code, entry, 1, w)

    best = optimize.minimize(loss, np.zeros(2), method="BFGS", options={"gtol": 1e-6})
    np.testing.assert_allclose(m.coef_, best.x, atol=1e-5)
    assert m.log_likelihood_ == pytest.approx(-loss(m.coef_), rel=1e-12)


def test_weights_are_repeats_and_order_and_labels_do_not_matter():
    X, time, code, entry = people(4, 100, ties=True)
    y, strata = steropes.Surv(time, code, entry), np.arange(100) % 2
    w = np.random.default_rng(0).integers(0, 4, 100)
    w[:6] = 1
    one = steropes.FineGrayRegression().fit(X, y, sample_weight=w, strata=strata)
    at = np.random.default_rng(1).permutation(np.repeat(np.arange(100), w))
    labels = np.array(["z", "a"])[strata[at]]
    two = steropes.FineGrayRegression().fit(X[at], y[at], strata=labels)
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-9)
    np.testing.assert_allclose(one.vcov(), two.vcov(), rtol=1e-8)
    clusters = one.vcov("robust"), two.vcov("robust", cluster=at)
    np.testing.assert_allclose(*clusters, rtol=1e-7)
    np.testing.assert_allclose(
        one.curves.incidence(X[:2], [5], strata=strata[:2])[["incidence", "se"]],
        two.curves.incidence(X[:2], [5], strata=["z", "a"], cluster=at)[["incidence", "se"]],
        rtol=1e-7,
    )


def scores_by_definition(X, time, code, entry, beta, w):
    """Fine and Gray's (1999, §3) η̂_i + ψ̂_i with a part for H beside that for G; no ties."""
    n, p = X.shape
    r, events = w * np.exp(X @ beta), np.flatnonzero(code == 1)
    after = staying_weights(time, code, entry, w)

    def omega(i, t):
        if time[i] >= t:
            return float(entry[i] < t)
        return after(i, t) if code[i] > 1 else 0.0

    U, q_part = np.zeros((n, p)), []
    for k in events:
        t = time[k]
        o = np.array([omega(i, t) for i in range(n)])
        mean, jump = (o * r) @ X / (o * r).sum(), w[k] / (o * r).sum()
        U[k] += w[k] * (X[k] - mean)
        part = (X - mean) * (o * r * jump)[:, None]
        U -= part
        q_part.append((t, part))

    def q(u):
        stay = (code > 1) & (time <= u)
        return sum((part[stay].sum(axis=0) for t, part in q_part if t > u), np.zeros(p))

    for j in np.flatnonzero(code == 0):
        u = time[j]
        risk = (entry < u) & (time >= u)
        n_u, q_u = w[risk].sum(), q(u)
        for i in np.flatnonzero(risk):
            U[i] += w[i] * q_u / n_u * ((i == j) - w[j] / n_u)
    for u in np.unique(entry):
        risk = (entry <= u) & (time > u)
        n_u, q_u, new = w[risk].sum(), q(u), w[entry == u].sum()
        for i in np.flatnonzero(risk):
            U[i] -= w[i] * q_u / n_u * ((entry[i] == u) - new / n_u)
    return U


@pytest.mark.parametrize("stratified", [False, True])
def test_robust_covariance_knows_that_both_distributions_are_estimated(stratified):
    X, time, code, entry = people(5, 90)
    w = np.random.default_rng(1).uniform(0.5, 2, 90)
    strata = np.arange(90) % 2 if stratified else np.zeros(90, int)
    m = steropes.FineGrayRegression().fit(
        X, steropes.Surv(time, code, entry), sample_weight=w, strata=strata
    )
    U = np.zeros_like(X)
    for s in np.unique(strata):
        at = strata == s
        U[at] = scores_by_definition(X[at], time[at], code[at], entry[at], m.coef_, w[at])
    np.testing.assert_allclose(U.sum(axis=0), 0, atol=1e-6)
    V = m.vcov("model").to_numpy()
    np.testing.assert_allclose(m.vcov("robust").to_numpy(), V @ U.T @ U @ V, rtol=1e-7)
    sums = np.array([U[np.arange(90) % 9 == c].sum(axis=0) for c in range(9)])
    by_cluster = m.vcov("robust", cluster=np.arange(90) % 9).to_numpy()
    np.testing.assert_allclose(by_cluster, V @ sums.T @ sums @ V, rtol=1e-7)


@pytest.mark.slow
def test_errors_of_effects_and_curves_are_near_the_jackknife_s():
    X, time, code, entry = people(6, 30)
    y = steropes.Surv(time, code, entry)
    at = np.quantile(time, [0.3, 0.7])

    def fitted(w):
        m = steropes.FineGrayRegression(tol=1e-11).fit(X, y, sample_weight=w)
        return m, np.append(m.coef_, m.predict_cumulative_incidence(X[:2], at))

    m, _ = fitted(np.ones(30))
    influence = np.array(
        [(fitted(1 + 1e-4 * e)[1] - fitted(1 - 1e-4 * e)[1]) / 2e-4 for e in np.eye(30)]
    )
    expected = np.sqrt((influence**2).sum(axis=0))
    # the distributions' parts are by martingales, which differ by one over those at risk
    np.testing.assert_allclose(m.summary(kind="robust")["se"], expected[:2], rtol=0.01)
    np.testing.assert_allclose(m.curves.incidence(X[:2], at)["se"], expected[2:], rtol=0.02)


def test_rows_of_one_person_are_the_person():
    """A covariate that changes at a time of the person's own, and stays after a competing event."""
    X, time, code, entry = people(7, 80)
    cut = (time + entry) / 2
    both = steropes.Surv(
        np.concatenate([cut, time]), np.concatenate([0 * code, code]), np.concatenate([entry, cut])
    )
    person = np.tile(np.arange(80), 2)
    one = steropes.FineGrayRegression().fit(X, steropes.Surv(time, code, entry))
    two = steropes.FineGrayRegression().fit(X[person], both)
    np.testing.assert_allclose(two.coef_, one.coef_, rtol=1e-8)
    np.testing.assert_allclose(two.vcov("robust", cluster=person), one.vcov("robust"), rtol=1e-8)
    more = np.array([0.5, 0])
    three = steropes.FineGrayRegression().fit(np.concatenate([X, X + more]), both)
    row, start, stop, event, wt = expanded(time, code, entry)
    early = start < cut[row]
    y = steropes.Surv(
        np.concatenate([stop, cut[row[early]]]), np.concatenate([event, 0 * row[early]]),
        np.concatenate([np.maximum(start, cut[row]), start[early]]),
    )  # fmt: skip
    cox = steropes.CoxRegression(ties="breslow").fit(
        np.concatenate([X[row] + more, X[row[early]]]), y,
        sample_weight=np.concatenate([wt, wt[early]]),
    )  # fmt: skip
    np.testing.assert_allclose(three.coef_, cox.coef_, rtol=1e-7)


@pytest.mark.parametrize("scoring", ["held_out", "difference"])
def test_cross_validation_is_naive_refits(scoring):
    """Each part has its own distributions of censoring and of entry."""
    X, time, code, entry = people(8, 90, ties=True)
    y, fold = steropes.Surv(time, code, entry), np.arange(90) % 3
    splits = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(3)]
    cv = steropes.CrossValidation(splits, search=[0.02, 0.3], scoring=scoring, tol=1e-8)
    m = steropes.FineGrayRegression(prior=steropes.Normal(1.0), cv=cv).fit(X, y)
    for v in (0.02, 0.3):
        expected = []
        for train, test in splits:
            r = steropes.FineGrayRegression(prior=steropes.Normal(v), tol=1e-10)
            b = r.fit(X[train], y[train]).coef_
            whole, inside, outside = (
                -late_fine_gray_loss(X[at] @ b, time[at], code[at], entry[at])
                for at in (np.arange(90), train, test)
            )
            expected.append(outside if scoring == "held_out" else whole - inside)
        row = m.cv_results_[np.isclose(m.cv_results_["variance"], v)].iloc[0]
        folds = row[["fold0", "fold1", "fold2"]].to_numpy(float)
        np.testing.assert_allclose(folds, expected, rtol=1e-6)


def test_concordance_compares_those_who_have_entered():
    X, time, code, entry = people(9, 40)
    m = steropes.FineGrayRegression().fit(X, steropes.Surv(time, code, entry))
    eta, good, pairs = X @ m.coef_, 0.0, 0
    for i in np.flatnonzero(code == 1):
        for j in range(40):
            if entry[j] < time[i] and (time[j] > time[i] or (code[j] == 2 and j != i)):
                pairs += 1
                good += (eta[i] > eta[j]) + 0.5 * (eta[i] == eta[j])
    assert m.validation.concordance(X, steropes.Surv(time, code, entry)) == pytest.approx(
        good / pairs
    )


def test_interrupted_observation_is_refused_with_the_remedy():
    """R's coxph has no use for these weights either: they are infinite."""
    d, y = by_age("few", 50)
    with pytest.raises(steropes.DataError, match=r"at most 601\.811 .*until then\)\.$"):
        steropes.FineGrayRegression().fit(d[X_OF_R], y)
    with pytest.raises(steropes.DataError, match=r"in stratum 3 .*merged"):
        steropes.FineGrayRegression().fit(d[X_OF_R], y, strata=d["stratum"])
    later = y["time"] > 601.811
    assert steropes.FineGrayRegression().fit(d[X_OF_R][later], y[later]).converged_
    weightless = steropes.FineGrayRegression().fit(d[X_OF_R], y, sample_weight=later * 1.0)
    assert weightless.converged_
    censored = steropes.Surv(y["time"], np.where(later, y["event"], 0), y["entry"])
    assert steropes.FineGrayRegression().fit(d[X_OF_R], censored).converged_


def test_folds_and_draws_may_have_interruptions():
    X, time, code, entry = people(10, 60)
    entry[20:] = np.minimum(np.maximum(entry[20:], 0.05), 0.99 * time[20:])
    entry[:20], time[:20] = 0.0, np.minimum(time[:20], 0.04 + np.arange(20) / 1000)
    time[0], code[0] = 3.0, 0  # the only one who was there before and after
    y = steropes.Surv(time, code, entry)
    cv = steropes.CrossValidation(5, random_state=0)
    m = steropes.FineGrayRegression(prior=steropes.Laplace(), cv=cv).fit(X, y)
    assert np.isfinite(m.cv_results_["mean"]).all()
    m = steropes.FineGrayRegression(prior=steropes.Normal(1.0)).fit(X, y)
    draws = m.inference.bootstrap(30, random_state=0)
    assert np.isfinite(draws.confint()).all(axis=None)


def test_pickle_and_baseline():
    X, time, code, entry = people(11)
    m = steropes.FineGrayRegression().fit(X, steropes.Surv(time, code, entry))
    again = pickle.loads(pickle.dumps(m))
    np.testing.assert_array_equal(
        m.predict_cumulative_incidence(X, [0.5]), again.predict_cumulative_incidence(X, [0.5])
    )
    assert (m.curves.baseline_hazard(level=None)["hazard"] > 0).all()
