"""
Combine databases that each have few events
===========================================

Rare outcomes need several databases. The usual meta-analysis combines estimates and standard
errors, which assumes that each likelihood is normal. With few events it is not, and a database
with no event in one arm has no estimate at all. Profile likelihoods can be combined instead
(Schuemie and others, 2022), and they are all that a database has to share.
"""

# %%
# Simulate six databases of different size. The true hazard ratio is 1.5.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from steropes import CoxRegression, MonotoneLikelihoodWarning, Surv
from steropes.designs.evidence import Profile, combine_normal, combine_profiles, random_effects

random = np.random.default_rng(4)


def database(n):
    """Follow n people for a year; 15 % take the drug, and about 1.5 % have an event."""
    drug = (random.random(n) < 0.15).astype(float)
    time = random.exponential(1 / (0.015 * 1.5**drug))
    return pd.DataFrame({"drug": drug}), Surv(np.minimum(time, 1), time < 1)


databases = [database(n) for n in (300, 500, 800, 1200, 1500, 2000)]

# %%
# Each site fits its model and shares the profile likelihood of the drug's coefficient. Where users
# of the drug had no event, the likelihood has no maximum; its profile is still informative. A
# normal prior that is nearly flat makes those fits possible, and a profile ignores the prior of
# its own coefficient.

import warnings

from steropes import Normal

profiles, estimates = [], []
for x, y in databases:
    model = CoxRegression(prior=Normal(variance=100.0)).fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MonotoneLikelihoodWarning)
        curve = model.inference.profile("drug")
    profiles.append(Profile(curve["point"], curve["log_likelihood"], curve["gradient"]))
    events = int(y["event"][x["drug"] == 1].sum())
    row = model.summary().loc["drug"]
    estimates.append({"people": len(x), "events with the drug": events, **row[["coef", "se"]]})
table = pd.DataFrame(estimates)
table.round(2)

# %%
# Combine the curves, and for comparison the estimates of the databases that have one.

usable = table[table["events with the drug"] > 0]
by_profile = combine_profiles(profiles)
by_normal = combine_normal(usable["coef"], usable["se"])
pd.DataFrame(
    {
        name: np.exp([found.log_rr, found.lower, found.upper])
        for name, found in (("profiles", by_profile), ("normal", by_normal))
    },
    index=["hazard ratio", "lower", "upper"],
).T.round(2)

# %%
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ratio = np.geomspace(0.2, 8, 200)
total = 0.0
for profile in profiles:
    inside = (np.log(ratio) >= profile.low) & (np.log(ratio) <= profile.high)
    height = np.where(inside, profile(np.clip(np.log(ratio), profile.low, profile.high)), np.nan)
    total = total + height
    ax.plot(ratio, height - np.nanmax(height), color="lightgrey")
ax.plot(ratio, total - np.nanmax(total), color="tab:blue", lw=2)
ax.axhline(-1.92, ls="--", color="grey")
ax.set(xscale="log", ylim=(-6, 0.3), xlabel="Hazard ratio", ylabel="Log-likelihood")
ax.minorticks_off()
_ = ax.set_xticks([0.25, 0.5, 1, 2, 4, 8], labels=["0.25", "0.5", "1", "2", "4", "8"])

# %%
# How different are the databases, and what would be found in a further one? With effects that
# differ, the curves give the spread of the effects and limits of the ratio in another database.

found = random_effects(profiles)
print(f"spread of the log ratio {found.tau:.2f}")
print("in a further database:", np.exp([found.predicted_lower, found.predicted_upper]).round(2))

# %%
# **Interpretation.** No database alone could answer the question. Together they give an interval
# that contains the true ratio of 1.5. Leaving out databases without events in an arm, as the
# normal approximation must, discards evidence of *few* events and pushes the combined ratio
# upwards.
