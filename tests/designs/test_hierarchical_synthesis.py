"""The hierarchy of controls and databases agrees with dense algebra, draws and limits."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

from steropes import DataError
from steropes.designs.evidence import hierarchical_synthesis
from steropes.designs.evidence.hierarchical_synthesis import _Model, _nodes, _rows


def simulated(rng, controls=20, databases=4, effect=0.7, sds=(0.3, 0.1, 0.05), mean=0.2):
    """Estimates with errors by outcome, by database and of the rest; two outcomes of interest."""
    outcomes = controls + 2
    table = pd.DataFrame(
        [(s, o) for o in range(outcomes) for s in range(databases)], columns=["database", "outcome"]
    )
    table["control"] = table["outcome"] < controls
    table["se"] = rng.uniform(0.05, 0.3, len(table))
    error = mean + rng.normal(0, sds[0], outcomes)[table["outcome"]]
    error += rng.normal(0, sds[1], databases)[table["database"]]
    error += rng.normal(0, sds[2], len(table)) + rng.normal(0, table["se"])
    table["log_rr"] = error + effect * ~table["control"]
    return table


def test_the_posterior_given_spreads_is_that_of_dense_normal_algebra():
    rows = _rows(simulated(np.random.default_rng(0), controls=6, databases=3))
    model = _Model(rows, 2.0, 1.5)
    sd, prior = _nodes(0.5)
    logs, mean, error = model.fits(sd, 9, prior)
    y, n = rows["log_rr"].to_numpy(), len(rows)
    same_outcome = np.equal.outer(rows["outcome"].to_numpy(), rows["outcome"].to_numpy())
    same_database = np.equal.outer(rows["database"].to_numpy(), rows["database"].to_numpy())
    interest = ~rows["control"].to_numpy()
    found = []
    pairs = [(5, 7), (8, 10), (12, 9)]
    for a, b in pairs:
        covariance = np.diag(rows["se"] ** 2 + sd[9] ** 2) + 2.0**2
        covariance = covariance + sd[a] ** 2 * same_outcome + sd[b] ** 2 * same_database
        own = 1.5**2 * (same_outcome & np.logical_and.outer(interest, interest))
        covariance = covariance + own
        found.append(
            multivariate_normal(np.zeros(n), covariance).logpdf(y) + prior[[a, b, 9]].sum()
        )
        first = 1.5**2 * (rows["outcome"] == model.interest[0]).to_numpy()
        k = a * len(sd) + b
        assert mean[k, 0] == pytest.approx(first @ np.linalg.solve(covariance, y), abs=1e-9)
        variance = 1.5**2 - first @ np.linalg.solve(covariance, first)
        assert error[k, 0] == pytest.approx(np.sqrt(variance), abs=1e-9)
        bias = 2.0**2 + sd[b] ** 2 * (rows["database"] == model.databases[1]).to_numpy()
        assert mean[k, 3] == pytest.approx(bias @ np.linalg.solve(covariance, y), abs=1e-9)
    at = [a * len(sd) + b for a, b in pairs]
    np.testing.assert_allclose(np.diff(logs[at]), np.diff(found), atol=1e-8)


def test_nodes_integrate_the_half_normal_prior():
    sd, log_mass = _nodes(0.5)
    mass = np.exp(log_mass)
    assert (mass @ sd**2) / mass.sum() == pytest.approx(0.25, rel=1e-3)


def test_errors_shared_by_databases_do_not_vanish_with_more_of_them():
    rng = np.random.default_rng(1)
    few, many = (simulated(rng, databases=k, sds=(0.3, 0.05, 0.05)) for k in (2, 12))
    a, b = (hierarchical_synthesis(x) for x in (few, many))
    assert b.effects["se"].min() > 0.2  # about the spread of outcomes
    assert b.effects["se"].max() < 1.2 * a.effects["se"].max()
    assert b.spread.loc["outcomes", "lower"] < 0.3 < b.spread.loc["outcomes", "upper"]
    assert b.spread.loc["rest", "upper"] < 0.15
    assert b.effects["databases"].tolist() == [12, 12]
    # Another database differs by the rest of the model.
    found, rest = b.effects.iloc[0], b.spread.loc["rest", "sd"]
    width = (found["predicted_upper"] - found["predicted_lower"]) / (2 * 1.96)
    assert found["se"] < width == pytest.approx(np.hypot(found["se"], rest), rel=0.03)


@pytest.mark.slow
def test_intervals_cover_the_effect():
    rng = np.random.default_rng(2)
    inside = plain = 0
    for _ in range(50):
        table = simulated(rng, controls=15, databases=3)
        found = hierarchical_synthesis(table).effects
        inside += ((found["lower"] < 0.7) & (found["upper"] > 0.7)).sum()
        own = table[~table["control"]].assign(w=lambda x: x["se"] ** -2)
        se = own.groupby("outcome")["w"].sum().to_numpy() ** -0.5
        plain += (np.abs(found["naive"].to_numpy() - 0.7) < 1.96 * se).sum()
    assert 0.88 <= inside / 100 <= 1
    assert plain / 100 < 0.6


def test_the_order_of_rows_does_not_matter_and_unusable_rows_are_left_out():
    table = simulated(np.random.default_rng(3))
    found = hierarchical_synthesis(table)
    more = pd.concat([table, table[:1].assign(database=9, se=np.nan)])
    again = hierarchical_synthesis(more.sample(frac=1, random_state=1))
    pd.testing.assert_frame_equal(pd.DataFrame(found.effects), pd.DataFrame(again.effects))
    assert found.controls == 20
    found.plot()


def test_wrong_tables():
    table = simulated(np.random.default_rng(4))
    wrong = [
        (table.drop(columns="se"), {}, "estimates has no column 'se'"),
        (pd.concat([table, table[:1]]), {}, "an outcome twice in one database, in row 88"),
        (table[table["control"]], {}, "All outcomes are controls"),
        (table[table["outcome"] > 16], {}, "3 controls have an estimate; 5 or more"),
        (table.assign(control=table.index % 2 == 0), {}, "a control in one row and not in another"),
        (table.assign(control="no"), {}, "must be true or false"),
        (table, {"spread_sd": 0}, "spread_sd must be a positive number"),
    ]
    for given, settings, message in wrong:
        with pytest.raises(DataError, match=message):
            hierarchical_synthesis(given, **settings)
