"""Surrogates of sites that differ are those of a dense implementation by the papers' formulas."""

import numpy as np
import pandas as pd
import pytest
from federated_data import OPEN
from surrogate_reference import cox, lasso, logistic, newton, surrogate

from steropes.federated import FederatedPlan, FederatedSite
from steropes.studies.federation import federate


def draw(rng, survival, sizes=(80, 50, 120), p=3):
    """Sites with other covariates, outcomes, weights and offsets; one whose last is constant."""
    sites = {}
    for k, n in enumerate(sizes):
        X = rng.normal(0.5 * k, 1 + 0.3 * k, (n, p)) * [1.0, 0.01, 100.0]
        X[:, 0] = rng.random(n) < 0.3 + 0.1 * k
        if k == 1:
            X[:, -1] = 3.0
        o, w = rng.normal(0, 0.3, n), rng.uniform(0.5, 2.0, n)
        eta = X @ [0.6, 20.0, 0.002] + 0.2 * k - 0.4 + o
        e, t = np.zeros(n), np.zeros(n)
        y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
        if survival:
            e = np.round(rng.uniform(0, 0.3, n), 1)
            T, c = rng.exponential(np.exp(-eta)), rng.exponential(1.5, n)
            t, y = e + np.round(np.minimum(T, c), 1) + 0.1, (c >= T).astype(int)
        sites[f"s{k}"] = {"X": X, "w": w, "o": o, "y": y, "t": t, "e": e}
    return sites


def run(sites, **more):
    p = sites["s0"]["X"].shape[1]
    tables = {
        s: pd.DataFrame({f"x{j}": d["X"][:, j] for j in range(p)} | {k: d[k] for k in "woyte"})
        for s, d in sites.items()
    }
    plan = FederatedPlan(
        columns=tuple(f"x{j}" for j in range(p)),
        sites=tuple(sites),
        weight="w",
        offset="o",
        per_site=True,
        **more,
    )
    return federate(plan, {s: FederatedSite(s, t, OPEN) for s, t in tables.items()})


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("method", "baseline", "lead", "order", "ties"),
    [
        ("odal", "common", "s2", 2, None),
        ("odal", "common", "all", 2, None),
        ("odac", "site", "s0", 1, "breslow"),
        ("odac", "common", "s0", 2, "efron"),
    ],
)
def test_a_surrogate_is_that_of_the_papers(method, baseline, lead, order, ties, rng):
    survival = method == "odac"
    sites = draw(rng, survival)
    more = {"model": "logistic"}
    if survival:
        more = {"model": "cox", "outcome": "t", "event": "y", "entry": "e", "ties": ties}
    found = run(sites, method=method, baseline=baseline, lead=lead, order=order, **more)
    assert "site 's1' has no estimate" in found.notes[0]

    def own(beta, d):
        return cox(beta, d, ties) if survival else logistic(beta, d)

    pooled = None
    if survival and baseline == "common":
        pooled = {k: np.concatenate([d[k] for d in sites.values()]) for k in sites["s0"]}
    b, H = [], []
    for one in sites if lead == "all" else [lead]:
        f, start = surrogate(sites, own, len(found.coef), one, order, pooled)
        b.append(newton(f, start))
        H.append(f(b[-1])[2])
    total = sum(H)
    coef = np.linalg.solve(total, sum(h @ x for h, x in zip(H, b, strict=True)))
    vcov = np.linalg.inv(total / len(H))
    se = np.sqrt(np.diag(vcov))
    assert np.abs(found.coef - coef).max() < 1e-6 * np.abs(coef).max()
    assert ((found.coef - coef) / se) == pytest.approx(0, abs=1e-6)
    assert np.sqrt(np.diag(found.vcov)) == pytest.approx(se, rel=1e-6)


def test_adap_is_the_lasso_of_the_surrogate(rng, monkeypatch):
    sites, kept = draw(rng, False), []
    for d in sites.values():
        d["X"] = d["X"] / [1.0, 0.01, 100.0]
    answer = FederatedSite.answer

    def heard(self, plan, request, earlier):
        kept.append(answer(self, plan, request, earlier))
        return kept[-1]

    monkeypatch.setattr(FederatedSite, "answer", heard)
    found = run(sites, model="logistic", baseline="common", method="adap", prior="laplace",
                variance=0.05, lead="s0")  # fmt: skip
    first = [a for a in kept if a.ask == "estimate"]
    weight = np.array([sites[a.site]["w"].sum() for a in first])
    start = weight @ np.array([a.arrays["estimate"] for a in first]) / weight.sum()
    f, _ = surrogate(sites, logistic, 4, "s0", start=start)
    coef = lasso(f, start, np.sqrt(2 / 0.05) * np.array([0.0, 1.0, 1.0, 1.0]))
    assert found.coef == pytest.approx(coef, rel=1e-6, abs=1e-7)
