"""
A lasso, its path and an honest interval
========================================

Four thousand patients, two hundred covariates, and one exposure whose effect is the question.
Penalise the covariates and leave the exposure alone.
"""

# %%
# Simulate data in which ten covariates matter and are correlated with the exposure.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from steropes import CrossValidation, Laplace, LogisticRegression, coefficient_path, plots

rng = np.random.default_rng(11)
n, p = 4000, 200
X = rng.normal(size=(n, p))
exposure = (X[:, :10].sum(axis=1) * 0.3 + rng.normal(size=n) > 0).astype(float)
y = (rng.random(n) < 1 / (1 + np.exp(1 - 0.6 * exposure - 0.4 * X[:, :10].sum(axis=1)))).astype(int)
table = pd.DataFrame(X, columns=[f"x{j}" for j in range(1, p + 1)])
table.insert(0, "exposure", exposure)

# %%
# Choose the variance of the prior by cross-validation.

prior = Laplace(exclude=["exposure"])
model = LogisticRegression(prior=prior, cv=CrossValidation(10, random_state=1)).fit(table, y)
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
plots.cross_validation_curve(model, ax=ax)

# %%
# The path of the coefficients shows which covariates enter at which penalty.

path = coefficient_path(LogisticRegression(prior=prior), table, y, np.geomspace(1e-4, 1, 25))
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
plots.coefficient_paths(path, chosen=model.variance_, ax=ax)

# %%
# Intervals of the exposure's odds ratio: adjusted with the lasso, crude, and adjusted for
# everything without a penalty.

crude = LogisticRegression().fit(table[["exposure"]], y)
full = LogisticRegression().fit(table, y)
intervals = pd.concat(
    {
        "lasso": model.confint("exposure", method="profile"),
        "crude": crude.confint("exposure", method="profile"),
        "no penalty": full.confint("exposure", method="profile"),
    }
)
np.exp(intervals).round(2)

# %%
# **Interpretation.** The true odds ratio is exp(0.6) = 1.82. The crude estimate is confounded. The
# intervals with all covariates, penalised or not, contain the truth. The penalty shrinks the
# effects of the confounders, so that a part of their effect stays with the exposure and the
# lasso's interval lies a little higher. With many more covariates than these the unpenalised model
# has no finite maximum and the lasso remains; :doc:`/which_interval` shows how often each interval
# covers the truth.
