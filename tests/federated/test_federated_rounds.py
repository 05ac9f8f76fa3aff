"""Rounds of sums end where one machine with all rows ends."""

import numpy as np
import pandas as pd
import pytest
from federated_data import COLUMNS, OPEN, plan_of, pooled_fit, run, site_tables
from scipy import sparse

from steropes import Laplace, LogisticRegression, Normal, SeparationError, ShardedDesign
from steropes.errors import DataError
from steropes.federated import FederatedPlan, FederatedSite
from steropes.studies.federation import federate

pytestmark = pytest.mark.filterwarnings("ignore:weights are not whole numbers")

BOTH = ("linear", "logistic", "poisson", "cox", "fine_gray")
CASES = [(m, b) for m in BOTH for b in ("site", "common")]
CASES += [("conditional", "site"), ("sccs", "site")]


@pytest.mark.sampled
@pytest.mark.parametrize(("model", "baseline"), CASES)
def test_rounds_are_the_fit_of_all_rows(model, baseline):
    tables = site_tables(model)
    found = run(plan_of(model, tables, baseline=baseline), tables)
    pooled = pooled_fit(model, tables, baseline)
    own = found.summary()
    # A site's own intercept stays at the site.
    whole = pooled.summary(kind="model").iloc[-len(own) :]
    assert np.abs(own["coef"].to_numpy() / whole["coef"].to_numpy() - 1).max() < 1e-8
    assert np.abs(own["se"].to_numpy() / whole["se"].to_numpy() - 1).max() < 1e-8
    assert found.log_likelihood == pytest.approx(pooled.log_likelihood_, rel=1e-12)
    assert found.converged
    assert 3 <= found.rounds <= 15


@pytest.mark.parametrize("baseline", ["site", "common"])
def test_fine_gray_with_late_entry_is_that_of_all_rows(baseline):
    tables = site_tables("fine_gray")
    found = run(plan_of("fine_gray", tables, entry="e", baseline=baseline), tables)
    pooled = pooled_fit("fine_gray", tables, baseline, late=True)
    np.testing.assert_allclose(found.summary(), pooled.summary(kind="model"), rtol=1e-7)
    assert found.log_likelihood == pytest.approx(pooled.log_likelihood_, rel=1e-12)
    without = pooled_fit("fine_gray", tables, baseline)
    assert np.abs(found.coef / without.coef_ - 1).max() > 1e-3
    assert found.revealed()["tells"].str.contains("that enter").any() == (baseline == "common")


@pytest.mark.parametrize("baseline", ["site", "common"])
def test_interrupted_observation_is_refused_without_numbers(baseline):
    """The first person leaves before anyone else comes; where sites share risk sets, of any."""
    tables = site_tables("fine_gray")
    later = {s: d.assign(t=d.t + 1, e=d.e + 1) for s, d in tables.items()}
    west = later["west"].copy()
    west.loc[0, ["t", "y", "e"]] = [0.5, 2, 0.0]
    if baseline == "common":  # others are there meanwhile
        found = run(plan_of("fine_gray", tables, entry="e", baseline="common"),
                    tables | {"west": west})  # fmt: skip
        assert found.converged
    with pytest.raises(DataError, match=r"'west'.* nobody, or hardly anyone, was under") as said:
        run(plan_of("fine_gray", tables, entry="e", baseline=baseline), later | {"west": west})
    text = str(said.value).split("'west'")[1]
    assert not any(character.isdigit() for character in text)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("model", "ties"),
    [("cox", "efron"), ("cox", "breslow"), ("fine_gray", None), ("fine_gray", "late")],
)
def test_a_grid_is_the_fit_of_times_rounded_up(model, ties):
    tables = site_tables(model)
    late = {"entry": "e"} if ties == "late" else {}
    ties = None if late else ties
    last = max(d.t.max() for d in tables.values())
    grid = np.linspace(0.2, np.ceil(last), 12)
    found = run(
        plan_of(model, tables, baseline="common", times=tuple(grid), ties=ties, **late), tables
    )
    low = np.concatenate([[-np.inf], grid])
    rounded = {
        s: d.assign(t=grid[np.searchsorted(grid, d.t)],
                    e=low[np.searchsorted(grid, d.e, side="right")])
        for s, d in tables.items()
    }  # fmt: skip
    more = {"ties": ties} if ties else {}
    pooled = pooled_fit(model, rounded, "common", late=bool(late), **more)
    assert np.abs(found.coef / pooled.coef_ - 1).max() < 1e-8
    assert "grid" in found.notes[0]


@pytest.mark.parametrize("prior", [Laplace(1e-2), Normal(1e-2)])
def test_penalties_are_those_of_one_machine(prior):
    tables = site_tables("logistic")
    name = "laplace" if isinstance(prior, Laplace) else "normal"
    plan = plan_of("logistic", tables, baseline="common", prior=name, variance=1e-2)
    found = run(plan, tables)
    pooled = pooled_fit("logistic", tables, "common", prior)
    assert found.coef[1:] == pytest.approx(pooled.coef_, rel=1e-7, abs=1e-9)
    assert (found.vcov is None) == (name == "laplace")


def test_sparse_columns_more_than_a_message_holds(rng, monkeypatch):
    monkeypatch.setattr("steropes.federated.pooled_evaluations.Evaluations.whole", 20)
    n, p = 400, 120
    X = {s: sparse.csc_array((rng.random((n, p)) < 0.1).astype(float)) for s in "abc"}
    beta = np.where(rng.random(p) < 0.1, 1.5, 0.0)
    y = {s: (rng.random(n) < 1 / (1 + np.exp(1 - x @ beta))).astype(int) for s, x in X.items()}
    plan = FederatedPlan(
        model="logistic", columns=tuple(f"x{j}" for j in range(p)), sites=("a", "b", "c"),
        baseline="common", prior="laplace", variance=0.02,
    )  # fmt: skip
    found = federate(plan, {s: FederatedSite(s, {"X": X[s], "y": y[s]}, OPEN) for s in X})
    pooled = LogisticRegression(prior=Laplace(0.02), tol=1e-11).fit(
        sparse.vstack(list(X.values())).tocsc(), np.concatenate(list(y.values()))
    )
    assert np.abs(found.coef[1:] - pooled.coef_).max() < 1e-8
    assert found.rounds <= 20
    assert max(r.numbers for r in found.records) < p * (p + 1) // 2


def test_separation_over_all_sites_is_named():
    tables = site_tables("logistic")
    tables = {s: d.assign(drug=d.y.astype(float)) for s, d in tables.items()}
    with pytest.raises(SeparationError, match="'drug'"):
        run(plan_of("logistic", tables, baseline="common"), tables)


def test_a_site_that_is_separated_by_itself_takes_part():
    tables = site_tables("logistic")
    north = tables["north"]
    tables["north"] = north.assign(drug=north.y.astype(float))
    found = run(plan_of("logistic", tables), tables)
    pooled = pooled_fit("logistic", tables)
    assert found.coef == pytest.approx(pooled.coef_[3:], rel=1e-8)


def test_collinear_columns_are_named():
    tables = {s: d.assign(marker=2 * d.drug) for s, d in site_tables("logistic").items()}
    with pytest.raises(SeparationError, match="Collinear columns"):
        run(plan_of("logistic", tables), tables)


def test_a_site_without_events_is_named():
    tables = site_tables("logistic")
    tables["west"] = tables["west"].assign(y=0)
    with pytest.raises(DataError, match="site 'west': there is no event here"):
        run(plan_of("logistic", tables), tables)
    found = run(plan_of("logistic", tables, baseline="common"), tables)
    assert found.converged


def test_weights_are_repeated_rows():
    tables = site_tables("cox")
    two = {s: d.assign(w=2.0) for s, d in tables.items()}
    twice = {s: d.loc[d.index.repeat(2)].reset_index(drop=True).assign(w=1.0)
             for s, d in tables.items()}  # fmt: skip
    for ties in ("breslow",):
        a, b = (run(plan_of("cox", t, baseline="common", ties=ties), t) for t in (two, twice))
        assert a.coef == pytest.approx(b.coef, rel=1e-9)
        assert a.vcov == pytest.approx(b.vcov, rel=1e-8)


def test_as_many_coefficients_as_rows_have_no_residual_variance():
    tables = {s: d.iloc[:2].assign(w=1.0) for s, d in site_tables("linear").items()}
    found = run(plan_of("linear", tables, prior="normal", variance=0.1), tables)
    pooled = pooled_fit("linear", tables, prior=Normal(0.1))
    np.testing.assert_allclose(found.coef, pooled.coef_[3:], rtol=1e-8)
    assert pooled.vcov("model").isna().all(axis=None)
    assert found.vcov is None
    assert found.summary()["se"].isna().all()
    assert "residual variance" in " ".join(found.notes)


def test_the_result_tells_what_was_sent():
    tables = site_tables("linear")
    found = run(plan_of("linear", tables), tables)
    traffic = found.traffic()
    assert len(traffic) == 3 * found.rounds
    assert found.bytes == traffic["sent"].sum() + traffic["received"].sum()
    assert found.revealed()["ask"].tolist() == ["describe", *["evaluate"] * (found.rounds - 1)]
    assert found.to_dict()["rounds"] == found.rounds
    assert "north" not in repr(found)


def test_a_sharded_design_is_refused():
    tables = site_tables("conditional")
    blocks = ShardedDesign.from_blocks([tables["west"][list(COLUMNS)].to_numpy()])
    data = {"X": blocks, "y": tables["west"].y, "set": tables["west"].set}
    with pytest.raises(DataError, match="site 'west': A ShardedDesign is for fit"):
        run(plan_of("conditional", tables), tables | {"west": data})


@pytest.mark.parametrize("weights", ["whole", "halves", "inverse probabilities"])
def test_results_with_weights_say_which_errors_they_have(weights, rng):
    """The errors of the model take weights as numbers of rows, which totals tell from others."""

    def site(n):
        x = rng.normal(size=n)
        w = {"whole": rng.integers(1, 3, n) * 1.0, "halves": np.full(n, 0.5)}
        y = (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)
        return pd.DataFrame({"x": x, "y": y, "w": w.get(weights, rng.uniform(0.5, 2.0, n))})

    names = ("north", "south", "west")
    plan = FederatedPlan(model="logistic", columns=("x",), weight="w", sites=names)
    found = federate(plan, {s: FederatedSite(s, site(400)) for s in names})
    assert found.fractional == (weights != "whole")
    assert any("of the model" in note for note in found.notes)
    assert found.to_dict()["errors"] == "model"
    if not found.fractional:
        assert found.summary().attrs == {"errors": "model"}
        return
    with pytest.warns(UserWarning, match=r"weights are not whole .* not valid"):
        table = found.summary()
    assert table.attrs["errors"] == "model"
    assert "model errors" in repr(table)
    assert "whole numbers" in table.attrs["note"]
