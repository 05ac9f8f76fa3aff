"""
A laboratory value on no particular scale
=========================================

Many outcomes are skewed, and the answer of a linear model depends on the transformation that
somebody chose. A cumulative probability model estimates the transformation together with the
effects.
"""

# %%
# Disease progression a year after baseline of 442 patients with diabetes (Efron and others 2004),
# from scikit-learn.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from steropes import CumulativeProbabilityModel, LinearRegression

X, y = load_diabetes(return_X_y=True, as_frame=True)
model = CumulativeProbabilityModel(link="probit").fit(X, y)
print(f"{len(np.unique(y))} distinct outcomes, certificate {model.optimality_:.0e}")
model.summary()[["coef", "lower", "upper", "p"]].round(3)

# %%
# The same fit for the logarithm of the outcome: the coefficients are identical, those of a linear
# model are not.

log_model = CumulativeProbabilityModel(link="probit").fit(X, np.log(y))
print("largest difference of the coefficients:", abs(model.coef_ - log_model.coef_).max().round(6))
linear = LinearRegression().fit(X, y).summary()["p"]
log_linear = LinearRegression().fit(X, np.log(y)).summary()["p"]
print("p of ltg:", f"{linear['s5']:.1e} and, of the logarithm, {log_linear['s5']:.1e}")

# %%
# One fit gives means, quantiles and probabilities of exceeding a limit.

patients = X.iloc[[10, 200]]
print("medians:", model.predict_quantile(patients, 0.5))
print("means:", model.predict_mean(patients).round(0))

# %%
# The estimated transformation is close to linear in the middle and bends at the ends.

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
model.checks.plot_alpha(ax=ax)

# %%
# **Interpretation.** Body mass index, blood pressure and a serum measurement go with faster
# progression. Because the fit uses the ranks of the outcome only, nobody has to defend a
# transformation, and a few extreme values cannot drive the result.
