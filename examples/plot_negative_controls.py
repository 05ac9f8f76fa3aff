"""
Negative controls: calibrate for confounding that was not measured
==================================================================

An observational estimate has an error that no interval shows: confounding by what was not measured.
Outcomes that a drug is known not to cause (*negative controls*) reveal how large that error tends
to be in a given database with a given design (Schuemie and others, 2014).
"""

# %%
# Simulate 20,000 people. Frail people take the drug more often and have more of every outcome, and
# frailty is recorded only in part. The drug doubles the rate of one outcome and does not affect
# thirty others.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from steropes import PoissonRegression, fit_many
from steropes.designs.controls import calibrate, fit_systematic_error

random = np.random.default_rng(11)
n, controls = 20_000, 30
frailty = random.normal(size=n)
drug = (random.random(n) < 1 / (1 + np.exp(1 - frailty))).astype(float)
recorded = (frailty + random.normal(size=n) > 1).astype(float)  # a diagnosis that reflects frailty
people = pd.DataFrame({"drug": drug, "recorded": recorded})

confounding = random.uniform(0.0, 0.6, controls + 1)  # of each outcome
confounding[0] = 0.5
rate = 0.05 * np.exp(np.outer(frailty, confounding))
rate[:, 0] *= np.where(drug == 1, 2, 1)
names = ["outcome", *(f"control {i}" for i in range(1, controls + 1))]
events = pd.DataFrame(random.poisson(rate), columns=names)

# %%
# Fit all 31 outcomes at once; X is read once.

estimates = fit_many(PoissonRegression(), people, events)
drug_rows = estimates[estimates["coefficient"] == "drug"].set_index("outcome")
drug_rows[["coef", "lower", "upper", "se"]].head(3).round(3)

# %%
# Without error, 95 % of the controls' intervals would contain a ratio of one.

negative = drug_rows.drop("outcome")
covered = ((negative["lower"] < 0) & (negative["upper"] > 0)).mean()
error = fit_systematic_error(negative["coef"], negative["se"])
print(f"{covered:.0%} of the controls' intervals contain 1")
print(f"systematic error: mean {error.mean:.2f}, standard deviation {error.sd:.2f}")

# %%
# Calibration subtracts the mean of the error and adds its variance.

found = drug_rows.loc["outcome"]
calibrated = calibrate(found["coef"], found["se"], error)
table = pd.DataFrame(
    {
        "rate ratio": np.exp([found["coef"], calibrated.log_rr]),
        "lower": np.exp([found["lower"], calibrated.lower]),
        "upper": np.exp([found["upper"], calibrated.upper]),
    },
    index=["as estimated", "calibrated"],
)
table.round(2)

# %%
# Each point is a control; those below the line have p < 0.05.

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.scatter(np.exp(negative["coef"]), negative["se"], s=18)
spread = np.linspace(0, 0.12, 50)
ax.plot(np.exp(1.96 * spread), spread, "--", color="grey")
ax.plot(np.exp(-1.96 * spread), spread, "--", color="grey")
ax.scatter([np.exp(found["coef"])], [found["se"]], marker="D", color="tab:orange")
ax.set(xscale="log", xlabel="Rate ratio", ylabel="Standard error", xlim=(0.5, 3.2), ylim=(0, 0.12))
ax.minorticks_off()
_ = ax.set_xticks([0.5, 1, 2, 3], labels=["0.5", "1", "2", "3"])

# %%
# **Interpretation.** The unmeasured part of frailty makes the drug look harmful for most outcomes
# that it does not affect. The calibrated estimate is lower, its interval is wider, and it contains
# the true ratio of 2, which the first interval misses. Calibration assumes that the error of the
# outcome of interest comes from the same distribution as the errors of the controls, which must
# therefore be chosen to be confounded alike.
