"""Surrogate likelihoods end where R's pda 1.3.2 ends on its own data.

``lung_sites.csv`` is pda's ``lung2``, with the row's number / 1000 added to the times: its Cox
functions mix Breslow's and Efron's ties. The numbers are of its functions with ``optim`` run to
convergence, for which its defaults stop short of the intercept's.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from federated_data import OPEN

from steropes import Laplace, LogisticRegression
from steropes.federated import FederatedPlan, FederatedSite
from steropes.federated.surrogate_likelihood import Correction
from steropes.studies.federation import federate

LUNG = pd.read_csv(Path(__file__).with_name("lung_sites.csv"))
SITES = ("site1", "site2", "site3")


def run(data=LUNG, **plan):
    plan = FederatedPlan(**{"sites": SITES, "columns": ("age", "sex"), "per_site": True, **plan})
    own = {s: data[data.site == s].reset_index(drop=True) for s in plan.sites}
    return federate(plan, {s: FederatedSite(s, d, OPEN) for s, d in own.items()})


@pytest.mark.parametrize(
    ("lead", "coef"),
    [
        ("site1", [-0.533237597, 0.0318868445, -1.0483779179]),
        ("site2", [-0.533353598, 0.0318890678, -1.0483969951]),
        ("all", [-0.533327946, 0.0318884929, -1.0483881334]),
    ],
)
def test_odal_is_pdas(lead, coef):
    found = run(model="logistic", baseline="common", outcome="status", method="odal", lead=lead)
    assert found.coef == pytest.approx(coef, rel=1e-6)
    assert found.rounds == 4
    if lead == "site1":
        se = np.sqrt(np.diag(found.vcov))
        assert se == pytest.approx([1.07161304, 0.01699204, 0.30841444], rel=1e-4)


@pytest.mark.parametrize(
    ("baseline", "lead", "coef", "se"),
    [
        ("common", "site1", [0.0170190590, -0.5126115728], [0.0092107734, 0.1675442650]),
        ("common", "site3", [0.0170206360, -0.5125829729], [0.0092233357, 0.1677272658]),
        ("site", "site2", [0.0169629767, -0.5569255801], [0.0093356106, 0.1719071939]),
    ],
)
def test_odac_is_pdas(baseline, lead, coef, se):
    found = run(
        model="cox", baseline=baseline, outcome="time", event="status", method="odac", lead=lead
    )
    assert found.coef == pytest.approx(coef, rel=1e-6)
    assert np.sqrt(np.diag(found.vcov)) == pytest.approx(se, rel=1e-6)
    assert found.rounds == (4 if baseline == "site" else 6)


def lasso_data(rng, n=600, p=8):
    X = rng.normal(size=(n, p))
    y = rng.random(n) < 1 / (1 + np.exp(0.5 - X[:, 0] + 0.7 * X[:, 1]))
    data = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)])
    return data.assign(y=y.astype(int), site=np.resize(SITES, n))


def test_adap_is_near_the_lasso_of_all_rows(rng):
    data = lasso_data(rng)
    columns = tuple(c for c in data.columns if c.startswith("x"))
    found = run(data, model="logistic", baseline="common", columns=columns, method="adap",
                prior="laplace", variance=0.01)  # fmt: skip
    pooled = LogisticRegression(prior=Laplace(0.01)).fit(data[list(columns)], data.y)
    assert found.coef[1:] == pytest.approx(pooled.coef_, abs=0.02)
    assert ((found.coef[1:] != 0) == (pooled.coef_ != 0)).mean() > 0.8
    assert found.vcov is None
    assert found.rounds == 4


@pytest.mark.parametrize("value", [0.0, 7.0])
def test_what_no_lead_has_in_its_lasso_is_zero_in_all_leads_together(value, rng):
    data = lasso_data(rng, 210, 2).assign(none=value)
    plan = {"model": "logistic", "baseline": "common", "columns": ("x0", "x1", "none"),
            "method": "adap", "prior": "laplace", "variance": 0.01, "lead": "all"}  # fmt: skip
    found = run(data, **plan)
    fewer = run(data, **plan | {"columns": ("x0", "x1")})
    assert found.coef[-1] == 0
    assert found.coef[:-1] == pytest.approx(fewer.coef, abs=1e-6)


def test_first_order_is_further_off_than_second():
    settings = {"model": "logistic", "baseline": "common", "outcome": "status", "method": "odal"}
    pooled = LogisticRegression().fit(LUNG[["age", "sex"]], LUNG.status)
    off = [np.abs(run(order=k, **settings).coef[1:] - pooled.coef_).max() for k in (1, 2)]
    assert off[1] < off[0] < 0.1


def test_the_corrections_derivatives_are_right(rng):
    M = rng.normal(size=(3, 3))
    term = Correction(rng.normal(size=3), M + M.T, rng.normal(size=3))
    b, h = rng.normal(size=3), 1e-6
    steps = b[:, None] + h * np.eye(3)
    back = b[:, None] - h * np.eye(3)
    slope = (term.value(steps) - term.value(back)) / (2 * h)
    assert slope == pytest.approx(term.gradient(b[:, None])[:, 0], rel=1e-6)
    assert term.hessian(b, np.arange(3)) == pytest.approx(M + M.T)
