"""
Bias analysis: how strong would a bias have to be?
==================================================

A confidence interval shows random error alone. This example asks how far an odds ratio could be
wrong because records miss some of the exposed people, and how strong a confounder that nobody
measured would have to be.
"""

# %%
# A case–control study found 45 exposed cases of 139, and 257 exposed controls of 1,202.

import matplotlib.pyplot as plt
import pandas as pd

from steropes.designs.bias_analysis import (
    Misclassification,
    UnmeasuredConfounder,
    bias_analysis,
    e_values,
    tipping_point,
    trapezoid,
)

table = [[45, 94], [257, 945]]

# %%
# A validation study says that records find 75 to 100 % of the exposed people, most likely 85 to
# 95 %, and that 90 to 100 % of the others are recorded as unexposed.

recorded = Misclassification(
    "exposure",
    sensitivity=trapezoid(0.75, 0.85, 0.95, 1),
    specificity=trapezoid(0.9, 0.95, 0.99, 1),
)
found = bias_analysis(table, recorded)
found.summary.round(2)

# %%
# Errors that are the same for cases and controls dilute the ratio, so that it becomes larger
# without them, and less precise. The counts contradict none of the draws.

fig, ax = plt.subplots(figsize=(7, 3.6), layout="constrained")
found.plot(ax=ax)
print(found.discarded, "draws discarded")

# %%
# Suppose that half of the exposed people have a confounder. How strong must it be for the lower
# limit to reach one? It depends on how common it is among the unexposed.

estimate = tuple(found.summary.loc["observed"])


def needed(share):
    """Return the ratio at which a confounder of this share of the unexposed explains the effect."""
    return tipping_point(
        estimate, lambda ratio: UnmeasuredConfounder(0.5, share, ratio), between=(1, 50)
    )


shares = [0.05, 0.1, 0.2, 0.3]
ratios = [needed(share) for share in shares]
pd.DataFrame({"share of unexposed": shares, "ratio needed": ratios}).round(2)

# %%
# The E-value needs no prevalence: a confounder explains the estimate only if its ratios with the
# exposure and with the outcome both reach it.

e_values(estimate, ratio="odds ratio").round(2)

# %%
# A confounder that is as common as this and doubles the risk would not be unusual. The direction of
# the two biases differs: records that miss exposed people hide an effect, and confounding may feign
# one. Given as a list, they are removed together, in the reverse order of their origin.

both = bias_analysis(table, [recorded, UnmeasuredConfounder(0.5, 0.2, trapezoid(1, 1.2, 1.6, 2))])
both.summary.round(2)
