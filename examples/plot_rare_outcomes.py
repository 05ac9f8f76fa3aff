"""
Rare outcomes learn from frequent ones
======================================

Angina, infarction and cardiac rupture share their risk factors, but ruptures are rare, so that a
model of them alone learns little. A prior that couples the outcomes lets the rare one borrow
strength from the frequent ones.
"""

# %%
# Simulate three outcomes of one X, whose coefficients are similar and not the same.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import steropes
from steropes import CrossValidation, JointNormal, Normal, fit_many

rng = np.random.default_rng(4)
n, p = 3_000, 12
X = pd.DataFrame(rng.standard_normal((n, p)), columns=[f"x{j}" for j in range(p)])
common = rng.normal(0, 0.5, p)
truth = pd.DataFrame(common[:, None] + rng.normal(0, 0.1, (p, 3)), index=X.columns,
                     columns=["angina", "infarction", "rupture"])  # fmt: skip
eta = X.to_numpy() @ truth.to_numpy() - [1.0, 2.0, 5.0]
events = pd.DataFrame(rng.binomial(1, 1 / (1 + np.exp(-eta))), columns=truth.columns)
events.sum()

# %%
# Fit all outcomes at once: under a normal prior of their own, and under one whose mean they share.
# The variances are chosen by cross-validation.

cv = CrossValidation(5, search=[0.001, 0.01, 0.1, 1.0], random_state=1)
tables = {
    "separate": fit_many(steropes.LogisticRegression(prior=Normal(), cv=cv), X, events),
    "joint": fit_many(
        steropes.LogisticRegression(prior=JointNormal(mean_variance=0.5), cv=cv), X, events
    ),
}


def errors(table):
    """Return the mean squared errors of the coefficients of each outcome."""
    found = table[table["coefficient"] != "intercept"].pivot(
        index="coefficient", columns="outcome", values="coef"
    )
    return ((found - truth) ** 2).mean()


pd.DataFrame({name: errors(table) for name, table in tables.items()}).round(3)

# %%
# The gain is where events are few.

rare = {
    name: table[(table["outcome"] == "rupture") & (table["coefficient"] != "intercept")]
    for name, table in tables.items()
}
fig, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
for name, table in rare.items():
    ax.scatter(truth.loc[table["coefficient"], "rupture"], table["coef"], label=name)
ax.axline((0, 0), slope=1, color="grey", linewidth=1)
ax.set(xlabel="True coefficient", ylabel="Estimate for ruptures")
ax.legend()

# %%
# A joint prior assumes that outcomes have something in common. If they have nothing, the
# cross-validation chooses a large variance, under which the fits are nearly separate.
