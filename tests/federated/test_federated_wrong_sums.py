"""A site that answers wrong sums: what the others can notice."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from federated_data import plan_of, run, site_tables

from steropes.errors import DataError
from steropes.federated import FederatedPlan, FederatedSite, federated_site
from steropes.studies.federation import federate

SITES = ("north", "south", "west")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("field", "factor"),
    [("people", 9), ("events", 90), ("filled", 9), ("filled", -9),
     ("within", -9), ("first", 9)],
)  # fmt: skip
def test_a_total_that_no_rows_have_is_refused_by_name(field, factor, rng, monkeypatch):
    honest = federated_site.description

    def wrong(rows, plan, request):
        found = honest(rows, plan, request)
        return found | {field: found[field] * factor} if len(rows.y) == 500 else found

    monkeypatch.setattr(federated_site, "description", wrong)
    x = rng.normal(3, 1, 500)
    d = pd.DataFrame({"x": x, "y": (rng.random(500) < 0.3) * 1})
    tables = {"north": d, "south": d[:400], "west": d[:300]}
    plan = FederatedPlan("logistic", ("x",), SITES)
    name = "between" if field == "first" else field
    with pytest.raises(DataError, match=f"the total of '{name}' is impossible"):
        federate(plan, {s: FederatedSite(s, t) for s, t in tables.items()})
    monkeypatch.undo()
    assert np.isfinite(federate(plan, {s: FederatedSite(s, t) for s, t in tables.items()}).coef[0])


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("model", "baseline", "field", "factor"),
    [
        ("linear", "common", "hessian", 1.01),
        ("logistic", "common", "gradient", 1.1),
        ("logistic", "common", "hessian", -1.0),
        ("logistic", "site", "gradient", 0.9),
        ("logistic", "site", "loss", 1.1),
        ("logistic", "site", "hessian", -2.0),
        ("poisson", "common", "gradient", 1.01),
        ("cox", "site", "gradient", -1.0),
        ("cox", "common", "S1", 1.1),
        ("cox", "common", "covariates", 1.1),
        ("cox", "common", "count", 1.5),
        ("cox", "common", "E", 2.0),
        ("cox", "common", "S", 0.5),
        ("conditional", "site", "gradient", 1.2),
    ],
)
def test_sums_that_contradict_each_other_are_refused(model, baseline, field, factor, monkeypatch):
    """One of three sites falsifies a sum in all of its answers; each alone is a likely number."""
    tables = site_tables(model)
    honest, liar = federated_site._sums, len(tables["north"])

    def wrong(rows, plan, request, predictor):
        found = honest(rows, plan, request, predictor)
        arrays = found if field in found else {}
        lies = len(rows.y) == liar and field in arrays
        return found | ({field: found[field] * factor} if lies else {})

    assert run(plan_of(model, tables, baseline=baseline), tables).converged
    monkeypatch.setattr(federated_site, "_sums", wrong)
    with pytest.raises(DataError, match="is impossible: the answer of at least one site is wrong"):
        run(plan_of(model, tables, baseline=baseline), tables)


@pytest.mark.parametrize("lie", ["other direction", "negative curvature", "none"])
def test_a_surrogate_that_contradicts_the_totals_is_refused(lie, monkeypatch):
    """Before, the lead site could claim any estimate and any error."""
    tables, honest = site_tables("logistic"), federated_site.fit_surrogate

    def wrong(rows, plan, request):
        found = honest(rows, plan, request)
        at = np.array(request.arrays["at"], float)
        at[0] -= request.arrays["center"] @ at[1:]
        return replace(found, **{
            "other direction": {"estimate": 2 * at - found.estimate},
            "negative curvature": {"hessian": found.hessian - 2 * np.diag(np.diag(found.hessian))},
            "none": {},
        }[lie])  # fmt: skip

    monkeypatch.setattr(federated_site, "fit_surrogate", wrong)
    plan = plan_of("logistic", tables, method="odal", baseline="common")
    if lie == "none":
        assert run(plan, tables).converged
        return
    with pytest.raises(DataError, match="the surrogate of site 'north' is impossible"):
        run(plan, tables)


@pytest.mark.parametrize("lie", ["other slopes", "higher ends", "none"])
def test_a_profile_that_no_likelihood_has_is_refused(lie, monkeypatch):
    tables, honest = site_tables("cox"), federated_site.local_profiles
    columns = ("drug",)

    def wrong(rows, plan):
        profiles, notes = honest(rows, plan)
        if len(rows.y) == len(tables["north"]) and lie != "none":
            profiles = {name: x.copy() for name, x in profiles.items()}
            for x in profiles.values():
                if lie == "other slopes":
                    x[:, 2] *= -1
                else:
                    x[-1, 1] += 2 * np.ptp(x[:, 1])
        return profiles, notes

    monkeypatch.setattr(federated_site, "local_profiles", wrong)
    plan = plan_of("cox", tables, columns, method="profiles", parameters=columns)
    if lie == "none":
        assert len(run(plan, tables).table)
        return
    with pytest.raises(DataError, match="the profile of 'drug' of site 'north' is impossible"):
        run(plan, tables)
