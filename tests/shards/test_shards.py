"""A design in blocks of rows is the same matrix: fits, intervals and choices are those of one."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import steropes
from steropes import CrossValidation, DataError, Laplace, ShardedDesign, Surv
from steropes.fit.shards.sharded_problem import ShardedProblem

CUTS = (0, 130, 270, 400)
STRATA = np.repeat(np.arange(40), [10] * 40)  # whole within the blocks
UNITS = np.array([1e-8, 1.0, 1e6])


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    few = sparse.csr_array(rng.random((400, 6)) < 0.3).astype(float)
    some = sparse.random_array((400, 3), density=0.2, rng=rng)
    dense = (rng.normal([0, 5, -3], size=(400, 3))) * UNITS
    return sparse.hstack([few, some, dense]).tocsr()


@pytest.fixture
def eta(X):
    return X[:, :3] @ [0.8, -0.6, 0.4] + (X[:, [9]].toarray()[:, 0]) / UNITS[0] * 0.5


def in_blocks(X, **given):
    return ShardedDesign.from_blocks([X[a:b] for a, b in pairwise(CUTS)], **given)


def outcome(name, eta):
    rng = np.random.default_rng(1)
    if name in ("LogisticRegression", "ConditionalLogisticRegression"):
        return (rng.random(400) < 1 / (1 + np.exp(-eta))).astype(int)
    if name == "LinearRegression":
        return eta + rng.normal(size=400)
    if name in ("CoxRegression", "FineGrayRegression"):
        time = np.ceil(20 * rng.exponential(np.exp(-eta / 2))) / 20
        events = rng.integers(0, 3 if name == "FineGrayRegression" else 2, 400)
        return Surv(time, events)
    return rng.poisson(np.exp(eta / 3))


FAMILIES = [
    ("LinearRegression", {}, {}, True),
    ("LogisticRegression", {}, {"offset": np.linspace(-1, 1, 400)}, True),
    ("PoissonRegression", {}, {"exposure": np.linspace(1, 2, 400)}, True),
    ("ConditionalLogisticRegression", {}, {"strata": STRATA}, True),
    ("ConditionalLogisticRegression", {"method": "efron"}, {"strata": STRATA}, True),
    ("ConditionalPoissonRegression", {}, {"strata": STRATA}, True),
    ("SelfControlledCaseSeries", {}, {"strata": STRATA, "exposure": np.ones(400)}, True),
    ("CoxRegression", {"ties": "breslow"}, {"strata": STRATA // 3}, False),  # some are cut
    ("CoxRegression", {}, {"strata": STRATA}, True),
    ("CoxRegression", {}, {}, False),
    ("FineGrayRegression", {}, {}, False),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("name", "settings", "given", "summed"), FAMILIES)
@pytest.mark.parametrize("prior", [None, Laplace(0.2)])
def test_a_fit_in_blocks_is_the_fit(name, settings, given, summed, prior, X, eta):
    estimator, y = getattr(steropes, name), outcome(name, eta)
    weights = np.repeat(np.random.default_rng(3).integers(0, 3, 40), 10)
    one, blocks = (
        estimator(prior=prior, **settings).fit(Z, y, sample_weight=weights, **given)
        for Z in (X, in_blocks(X))
    )
    assert blocks.converged_
    assert isinstance(blocks._problem, ShardedProblem)
    assert (blocks._problem.exchange is None) == summed
    unit = np.append(np.ones(9), UNITS)
    np.testing.assert_allclose(blocks.coef_ * unit, one.coef_ * unit, atol=2e-8)
    assert blocks.log_likelihood_ == pytest.approx(one.log_likelihood_, rel=1e-11)
    if prior is None:
        np.testing.assert_allclose(blocks.summary(), one.summary(), rtol=1e-4, atol=1e-6)


def test_a_cross_validation_in_blocks_chooses_the_same(X, eta):
    y = outcome("LogisticRegression", eta)
    cv = CrossValidation(4, random_state=2)
    one, blocks = (
        steropes.LogisticRegression(prior=Laplace(), cv=cv).fit(Z, y) for Z in (X, in_blocks(X))
    )
    assert blocks.variance_ == one.variance_
    np.testing.assert_allclose(blocks.cv_results_["mean"], one.cv_results_["mean"], rtol=1e-7)
    np.testing.assert_allclose(blocks.coef_[:9], one.coef_[:9], atol=1e-8)


def test_profiles_draws_and_predictions_of_blocks_are_those_of_one(X, eta):
    y, kept = outcome("PoissonRegression", eta), np.arange(9)
    one, blocks = (
        steropes.PoissonRegression().fit(Z, y) for Z in (X[:, kept], in_blocks(X[:, kept]))
    )
    for ask in (
        lambda m: m.confint(["x0"], method="profile"),
        lambda m: m.inference.bootstrap(3, random_state=1).coef,
        lambda m: m.vcov("robust"),
        lambda m: m.inference.model_tests(),
    ):
        np.testing.assert_allclose(ask(blocks), ask(one), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(blocks.predict(in_blocks(X[:, kept])), one.predict(X[:, kept]), 1e-7)


@pytest.mark.parametrize("name", ["LinearRegression", "LogisticRegression", "PoissonRegression"])
def test_the_intercept_of_blocks_is_held_at_the_origin_of_dense_columns(name, X, eta):
    dense, y = X.toarray()[:, [0, 1, 10, 11]], outcome(name, eta)
    one, blocks = (getattr(steropes, name)().fit(Z, y) for Z in (dense, in_blocks(dense)))
    value = one.intercept_ + 0.1
    for test in ("likelihood ratio", "score"):
        a, b = (m.inference.linear_hypothesis("intercept", value, test=test) for m in (one, blocks))
        np.testing.assert_allclose(b, a, rtol=1e-6)
    a, b = (m.confint("intercept", method="profile") for m in (one, blocks))
    np.testing.assert_allclose(b, a, rtol=1e-5)


def test_blocks_in_files_are_the_blocks(X, eta, tmp_path):
    y = outcome("LogisticRegression", eta)
    fits = [
        steropes.LogisticRegression(prior=Laplace(0.3)).fit(in_blocks(X, **given), y)
        for given in ({}, {"folder": tmp_path}, {"folder": tmp_path, "memory": 1.0})
    ]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.coef_, fits[0].coef_)


def test_files_of_blocks_go_with_the_design(X, eta, tmp_path):
    design = in_blocks(X, folder=tmp_path)
    model = steropes.LinearRegression(prior=Laplace(1.0)).fit(design, eta)
    assert list(tmp_path.iterdir())
    del design, model
    assert not list(tmp_path.iterdir())


def test_parquet_files_are_read_in_runs_of_row_groups(tmp_path, eta):
    rng = np.random.default_rng(5)
    table = pa.table({"a": rng.normal(size=400), "y": eta, "b": rng.integers(0, 2, 400)})
    pq.write_table(table.slice(0, 300), tmp_path / "1.parquet", row_group_size=50)
    pq.write_table(table.slice(300), tmp_path / "2.parquet", row_group_size=50)
    design = ShardedDesign.from_parquet(tmp_path, exclude=["y"], rows=100)
    assert design.rows == [100] * 4
    assert design.names == ["a", "b"]
    np.testing.assert_array_equal(design.read("y"), eta)
    blocks = steropes.LinearRegression().fit(design, design.read("y"))
    one = steropes.LinearRegression().fit(table.select(["a", "b"]), eta)
    np.testing.assert_allclose(blocks.coef_, one.coef_, rtol=1e-10)
    assert list(blocks.feature_names_in_) == ["a", "b"]
    with pytest.raises(DataError, match="no column 'z'"):
        design.read("z")
    with pytest.raises(DataError, match="no column 'z'"):
        ShardedDesign.from_parquet(tmp_path, exclude=["z"])


def test_what_blocks_cannot_do_is_refused_by_name(X, eta):
    design = in_blocks(X)
    y = outcome("CoxRegression", eta)
    with pytest.raises(DataError, match="ccd"):
        steropes.LogisticRegression(solver="ccd").fit(design, y["event"])
    with pytest.raises(DataError, match="in blocks"):
        steropes.CumulativeProbabilityModel().fit(design, eta, fixed={"x0": 1.0})
    with pytest.raises(DataError, match="rows in memory"):
        np.asarray(design)
    with pytest.raises(DataError, match="400 rows"):
        steropes.LinearRegression().fit(design, eta[:-1])
    with pytest.raises(DataError, match="Block 1 has 11 columns"):
        ShardedDesign.from_blocks([X, X[:, :-1]])
    with pytest.raises(DataError, match=r"Block 2: .*X has no rows"):
        ShardedDesign.from_blocks([X, X, X[:0]])
    with pytest.raises(DataError, match="Block 1: Input X contains NaN"):
        ShardedDesign.from_blocks([lambda: X, lambda: X.toarray() * np.nan])
    with pytest.raises(DataError, match="at least one block"):
        ShardedDesign.from_blocks([])
    for blocks in ([X, X], X, ["a.parquet"]):
        with pytest.raises(DataError, match="from_blocks"):
            ShardedDesign(blocks)


def test_many_outcomes_of_blocks_are_those_of_one(X, eta):
    rng, kept = np.random.default_rng(4), np.arange(9)
    outcomes = {name: eta + rng.normal(size=400) for name in "ab"}
    one, blocks = (
        steropes.fit_many(steropes.LinearRegression(), Z, outcomes)
        for Z in (X[:, kept], in_blocks(X[:, kept]))
    )
    np.testing.assert_allclose(blocks["coef"], one["coef"], atol=1e-8)


def test_blocks_of_this_process_take_the_threads_of_the_estimator(X, eta):
    design = in_blocks(X)
    for n_jobs in (1, 2):
        model = steropes.LinearRegression(prior=Laplace(1.0), n_jobs=n_jobs).fit(design, eta)
        blocks = model._problem.design.blocks._blocks
        assert [b.backend.pool.n_threads for b in blocks] == [n_jobs] * 3


@pytest.mark.parametrize(("seed", "level"), [(0, -8.0), (0, -30.0)])
def test_steps_that_go_too_far_do_not_warn(seed, level):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3)) * [1.0, 30.0, 1.0]
    X[:, 2] = 3.5
    y, offset = rng.poisson(2.0, 60), level + 3.0 * rng.normal(size=60)
    model = steropes.PoissonRegression(prior=steropes.Normal(1e4), fit_intercept=False, n_jobs=1)
    blocks = steropes.ShardedDesign.from_blocks([X[:30], X[30:]])
    whole = model.fit(X, y, offset=offset).coef_
    np.testing.assert_allclose(model.fit(blocks, y, offset=offset).coef_, whole, rtol=1e-6)


def test_functions_can_be_called_again_whenever_their_rows_are_needed(X, eta):
    """One block is in memory at a time, and the fit is that of blocks that stay."""
    calls = []

    def block(a, b):
        return lambda: (calls.append(a), X[a:b])[1]

    y = outcome("LogisticRegression", eta)
    kept = ShardedDesign.from_blocks([block(a, b) for a, b in pairwise(CUTS)])
    again = ShardedDesign.from_blocks([block(a, b) for a, b in pairwise(CUTS)], memory=0)
    models = [steropes.LogisticRegression(prior=Laplace(0.5)).fit(x, y) for x in (kept, again)]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    before = len(calls)
    models[1].predict_proba(again)
    assert len(calls) == before + 3
    for settings in ({"memory": 10.0}, {"memory": -1.0}):
        with pytest.raises(DataError, match="memory applies to blocks in files"):
            ShardedDesign.from_blocks([block(0, 400)], **settings)
    with pytest.raises(DataError, match="memory applies to blocks in files"):
        in_blocks(X, memory=0)
