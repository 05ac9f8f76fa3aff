"""Fit a model and print it: the check that an installed wheel works (``make package``)."""

import numpy as np

import steropes
from steropes import CoxRegression, Laplace, Surv

rng = np.random.default_rng(0)
x = rng.integers(0, 2, size=(500, 20))
time = rng.exponential(np.exp(-x[:, 0]))
model = CoxRegression(prior=Laplace(exclude=["x0"]), cv=5).fit(x, Surv(time, time < 2))
assert "site-packages" in steropes.__file__, steropes.__file__
assert model.optimality_ < 1e-6
print(model.summary().head(3))
