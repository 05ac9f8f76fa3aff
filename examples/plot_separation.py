"""
Rare events: when a maximum likelihood estimate does not exist
==============================================================

In the endometrial cancer data of Heinze and Schemper (2002), all 13 women with neovascularisation
(``NV``) had a high grade of cancer. The maximum likelihood estimate of its odds ratio is infinite,
and most software returns a large number instead. Here is a data set of the same kind.
"""

# %%
import numpy as np
import pandas as pd

from steropes import Jeffreys, LogisticRegression, Normal, SeparationError

random = np.random.default_rng(5)
n = 80
women = pd.DataFrame({"marker": np.arange(n) < 12, "thickness": random.normal(size=n)}, dtype=float)
risk = 1 / (1 + np.exp(0.8 - 0.7 * women["thickness"]))
severe = (random.random(n) < risk) | (women["marker"] == 1)  # everybody with the marker
pd.crosstab(women["marker"], severe)

# %%
# The fit proves that there is no finite maximum and names the column.

try:
    LogisticRegression().fit(women, severe)
except SeparationError as error:
    print(error)

# %%
# Firth's correction, which is Jeffreys' prior, has a finite estimate in every data set. It also
# removes the first-order bias of maximum likelihood. Its profile likelihood interval is
# asymmetric.

firth = LogisticRegression(prior=Jeffreys()).fit(women, severe)
pd.concat([firth.summary()[["coef"]], firth.confint(method="profile")], axis=1).round(2)

# %%
# A weakly informative normal prior says that odds ratios beyond 50 or so are implausible. It
# shrinks the other coefficients hardly at all.

normal = LogisticRegression(prior=Normal(variance=4.0)).fit(women, severe)
normal.summary()[["coef", "lower", "upper"]].round(2)

# %%
# **Interpretation.** The data exclude a small effect of the marker and cannot say how large it is:
# the lower limit is informative and the upper one is not. A report should give the interval of the
# penalised fit with its prior, and never "odds ratio > 999".
