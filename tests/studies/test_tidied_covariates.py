"""Covariates: what tidying drops, scaled columns, selected people, and values that are refused."""

import numpy as np
import pandas as pd
import pytest

from steropes.backends import get_backend
from steropes.designs.covariates import TidyRules, tidy
from steropes.errors import DataError
from steropes.studies.covariates import Features


def made(columns, n):
    """Features of given dense columns: {id: values}."""
    x = np.column_stack([np.asarray(c, dtype=float) for c in columns.values()])
    ids = np.array(sorted(columns))
    x = x[:, np.argsort(list(columns))]
    at = [np.flatnonzero(c) for c in x.T]
    indptr = np.concatenate(([0], np.cumsum([len(a) for a in at])))
    entries = np.concatenate([c[a] for c, a in zip(x.T, at, strict=True)])
    table = pd.DataFrame(
        {
            "covariate_id": ids,
            "name": [f"c{i}" for i in ids],
            "analysis_id": ids % 1000,
            "concept_id": 0,
            "people": [len(a) for a in at],
            "largest": x.max(axis=0),
            "binary": [(c[a] == 1).all() for c, a in zip(x.T, at, strict=True)],
        }
    )
    return Features(
        n, indptr, np.concatenate(at).astype(np.int32), entries.astype(np.float32), table
    )


def test_tidying_drops_what_is_rare_common_to_all_or_follows_from_others():
    n = 4000
    row = np.arange(n)
    columns = {
        1003: row < 2500,
        2003: (row >= 2500) & (row < 3999),
        3003: row == 3999,  # exhaustive
        1210: row < 3,
        2210: row < 4,
        3210: row >= 0,
        1901: np.where(row < 100, 1 + row % 5, 0),
    }
    found = tidy(made(columns, n))
    assert found.features.columns["covariate_id"].tolist() == [1901, 2003, 2210, 3003]
    assert found.scale.tolist() == [5, 1, 1, 1]
    assert dict(zip(found.dropped["covariate_id"], found.dropped["why"], strict=True)) == {
        1003: "redundant",
        1210: "rare",
        3210: "redundant",
    }
    everything = tidy(made(columns, n), TidyRules(0.0, False, False))
    assert len(everything.scale) == 7
    assert tidy(made(columns, n), exclude=(1901,)).features.columns["covariate_id"].tolist() == [
        2003,
        2210,
        3003,
    ]
    assert tidy(made(columns, n), include=(1901,)).design.shape == (n, 1)
    ignored = tidy(made(columns, n), include=(1901, 5), exclude=(6,))
    assert ignored.features.columns["covariate_id"].tolist() == [1901]
    with pytest.raises(DataError, match="nobody among these people has any of those to use"):
        tidy(made(columns, n), include=(5,))


def test_the_design_holds_the_scaled_columns():
    rng = np.random.default_rng(1)
    columns = {
        10 + i: (rng.random(50) < 0.4) * (1 if i % 3 else rng.integers(1, 9, 50)) for i in range(9)
    }
    found = tidy(made(columns, 50), TidyRules(0, False))
    design, backend = found.design, get_backend()
    units = np.diag(design.scale)
    dense = np.hstack([design.matmul(units[:, [j]], backend) for j in range(9)])
    wanted = found.features.matrix().toarray() / found.scale
    np.testing.assert_allclose(dense, wanted)
    assert wanted.max() == 1


def test_people_taken_keep_their_values_and_the_order_of_columns():
    rng = np.random.default_rng(2)
    features = made({i: rng.integers(0, 3, 30) for i in range(5, 12)}, 30)
    some = np.sort(rng.choice(30, 11, replace=False))
    np.testing.assert_array_equal(
        features.take(some).matrix().toarray(), features.matrix().toarray()[some]
    )
    np.testing.assert_array_equal(
        features.select(np.array([3, 1])).matrix().toarray(), features.matrix().toarray()[:, [3, 1]]
    )
    np.testing.assert_array_equal(features.column(7), features.matrix().toarray()[:, 2])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_covariates_of_ones_own_with_a_value_that_is_not_finite_are_refused(value):
    with pytest.raises(DataError, match=r"covariate 8003 has a value that is not finite in row 2"):
        made({5003: [1, 0, 1], 8003: [0, 1, value]}, 3)


@pytest.mark.parametrize("rows", [[2, 1, 0], [0, 0, 1], [True, False, True], [-1, 0, 1], [1, 2, 3]])
def test_rows_that_do_not_ascend_are_refused(rows):
    """As many rows as people are all of them only if they ascend."""
    features = made({5: np.array([1, 0, 2])}, 3)
    assert features.take(np.arange(3)) is features
    with pytest.raises(DataError, match="ascending numbers of rows from 0 to 2"):
        features.take(np.array(rows))
