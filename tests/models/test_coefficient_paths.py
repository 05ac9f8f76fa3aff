"""Coefficients along variances are those of separate fits, and leave the model as it is."""

import numpy as np
import pytest
from scipy import sparse

from every_family import EVERY, case
from steropes import Laplace, coefficient_path


@pytest.mark.parametrize("name", EVERY)
def test_a_path_is_separate_fits_in_every_family(name, rng):
    c = case(name, rng)
    weight = rng.integers(0, 3, len(c.X)).astype(float)
    if name == "conditional exact":
        weight = np.minimum(weight, 1.0)
    variances = np.array([0.3, 0.02])
    model = c.make(prior=Laplace(1.0)).fit(c.X, c.y, sample_weight=weight, **c.extras)
    before = dict(model.__dict__)
    X = sparse.csr_matrix(c.X)
    path = coefficient_path(model, X, c.y, variances, sample_weight=weight, **c.extras)
    assert model.__dict__ == before
    assert path.index.tolist() == [0.02, 0.3]
    names = list(model.summary().index)
    assert list(path.columns) == names[len(names) - len(path.columns) :]
    for variance in variances:
        alone = c.make(prior=Laplace(variance)).fit(c.X, c.y, sample_weight=weight, **c.extras)
        np.testing.assert_allclose(path.loc[variance], np.ravel(alone.coef_), atol=1e-7)
