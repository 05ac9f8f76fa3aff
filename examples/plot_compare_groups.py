"""
Two treatments compared from a table
====================================

Young, unmarried people with low earnings took a programme for the unemployed. Did it raise their
earnings? The people are simulated, so that the answer is known: it raised them by 1,000.
"""

# %%
# People of the programme are younger, less often married and earned less before.

import numpy as np
import pandas as pd

import steropes

rng = np.random.default_rng(3)
n = 1_500
people = pd.DataFrame(
    {
        "age": rng.normal(28, 8, n).clip(18).round(),
        "married": (rng.random(n) < 0.4) * 1,
        "region": rng.choice(["north", "south", "west"], n),
        "earned": rng.gamma(1.5, 3_000, n).round(),
    }
)
chance = 0.5 - 0.04 * (people["age"] - 28) - 0.8 * people["married"] - people["earned"] / 8_000
people["programme"] = (rng.random(n) < 1 / (1 + np.exp(-chance))) * 1
people["later"] = (
    3_000 + 1_000 * people["programme"] + 0.5 * people["earned"] + 1_500 * people["married"]
    + rng.normal(0, 3_000, n)
).round()  # fmt: skip

# %%
# Compare the groups by three methods at once. The population is those who took the programme.

found = steropes.compare_groups(
    people,
    treatment="programme",
    outcome="later",
    covariates=["age", "married", "region", "earned"],
    estimand="att",
    adjust=["matching", "weights", "entropy"],
)
found.effects[["method", "estimate", "lower", "upper", "errors"]].round(0)

# %%
# Without adjustment the programme seems to do nothing; all three methods find the thousand.

found.plot()

# %%
# The differences between the groups are gone after weighting.

found.plot("balance", method="weights")

# %%
# Most people of each group have people like them in the other one.

found.plot("overlap")

# %%
# The diagnostics say who remains and whether few people have most of the weight.

found.diagnostics.query("method == 'weights'")[["diagnostic", "value", "passed"]].round(3)
