"""
Confounding by indication and a propensity score
================================================

Simulated claims: 20,000 people, 500 binary covariates of which 40 raise both the chance of the new
drug and the hazard of the outcome. The drug itself does nothing. Can a large-scale propensity
score show that?
"""

# %%
# Simulate the covariates by their row numbers, as claims databases deliver them.

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

from steropes import CoxRegression, CrossValidation, Laplace, LogisticRegression, Surv
from steropes.designs.propensity import match_pairs

rng = np.random.default_rng(1)
n, p = 20_000, 500
X = sparse.random_array((n, p), density=0.03, format="csc", rng=rng)
X.data[:] = 1.0
confounding = np.zeros(p)
confounding[:40] = 0.8
risk = X @ confounding - (X @ confounding).mean()
treated = (rng.random(n) < 1 / (1 + np.exp(0.5 - risk))).astype(int)
time = rng.exponential(1 / (0.05 * np.exp(0.7 * risk)))
outcome = Surv(np.minimum(time, 2.0), time < 2.0)

# %%
# Without adjustment the drug seems harmful.

crude = CoxRegression().fit(treated[:, None], outcome)
crude.summary()[["exp(coef)", "exp(lower)", "exp(upper)"]].round(2)

# %%
# Fit the propensity score with a lasso prior. Its variance is chosen by ten-fold cross-validation.

score = LogisticRegression(prior=Laplace(), cv=CrossValidation(10, random_state=1)).fit(X, treated)
print(f"{np.count_nonzero(score.coef_)} of {p} covariates, certificate {score.optimality_:.0e}")
logit = score.decision_function(X)

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for arm, label in ((1, "new drug"), (0, "comparator")):
    ax.hist(logit[treated == arm], bins=60, density=True, alpha=0.5, label=label)
ax.set(xlabel="Logit of the propensity score", ylabel="Density")
ax.legend()

# %%
# Match each treated person with one comparator within 0.2 standard deviations of the logit, and
# compare the prevalences of the covariates before and after.

pair = match_pairs(logit, treated, 0.2 * logit.std())  # the number of the pair, or -1
a, b = (np.flatnonzero((pair >= 0) & (treated == arm)) for arm in (1, 0))


def differences(rows_1, rows_0):
    """Return the standardised differences of the covariates."""
    p1, p0 = (np.asarray(X[rows].mean(axis=0)).ravel() for rows in (rows_1, rows_0))
    return (p1 - p0) / np.sqrt((p1 * (1 - p1) + p0 * (1 - p0)) / 2)


before = differences(np.flatnonzero(treated), np.flatnonzero(1 - treated))
after = differences(a, b)
print(f"largest difference before {abs(before).max():.2f}, after {abs(after).max():.2f}")

fig, ax = plt.subplots(figsize=(4, 4), layout="constrained")
ax.scatter(abs(before), abs(after), s=8)
ax.axhline(0.1, linestyle="--", linewidth=1)
ax.set(xlabel="Standardised difference before matching", ylabel="After matching")

# %%
# The hazard ratio within pairs:

rows = np.r_[a, b]
matched = CoxRegression().fit(treated[rows][:, None], outcome[rows], strata=pair[rows])
matched.summary()[["exp(coef)", "exp(lower)", "exp(upper)"]].round(2)

# %%
# **Interpretation.** The crude hazard ratio is an artefact of confounding: the same covariates
# lead to the drug and to the outcome. After matching every covariate is balanced, and the interval
# contains the true value, one. Matching estimates the effect in the people who found a partner;
# compare their number with the size of the treated arm before generalising.
