"""
Formulas: splines, interactions and a nomogram
==============================================

Does hormone therapy help women with breast cancer of every age alike, and how does risk depend on
the number of positive nodes (Schumacher and others, 1994)? A formula states the model, and the
variables, not the columns of their splines, are tested and drawn.
"""

# %%
# The data come with lifelines. ``rcs(x, 4)`` is a restricted cubic spline with four knots at
# Harrell's quantiles, as in R's rms, and ``horTh * rcs(age, 3)`` adds the interaction.

import matplotlib.pyplot as plt

from steropes import CoxRegression, compare_nested_fits, datasets, plots

women = datasets.load_breast_cancer()
women["years"] = women["time"] / 365.25
model = CoxRegression.from_formula(
    "Surv(years, event) ~ horTh * rcs(age, 3) + tgrade + rcs(pnodes, 4) + rcs(progrec, 4)", women
)
model.summary()[["coef", "se", "p"]].round(3)

# %%
# Single coefficients of splines mean little. Tests of whole variables, of their non-linear parts
# and of the interaction are those of rms's ``anova``.

model.inference.term_tests().round(4)

# %%
# There is little evidence of an interaction with age. The likelihood-ratio test compares the
# model with the one without it.

simple = CoxRegression.from_formula(
    "Surv(years, event) ~ horTh + rcs(age, 3) + tgrade + rcs(pnodes, 4) + rcs(progrec, 4)", women
)
compare_nested_fits(simple, model).round(3)

# %%
# The effect of each variable with all others held: relative to its median, with limits.

fig, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained", sharey=True)
for ax, name in zip(axes, ("age", "pnodes", "progrec"), strict=True):
    plots.partial_effect(simple, name, ax=ax)

# %%
# Risk rises steeply up to about ten positive nodes and no further: a straight line would miss
# that. The nomogram adds everything up. A woman's points give her risk of recurrence in five years.

plots.nomogram(simple, time=5.0)

# %%
# The same numbers for a new woman, with limits, at one, three and five years:

new = women.iloc[[0]].assign(age=50, pnodes=8, horTh="yes")
simple.curves.survival(new, [1.0, 3.0, 5.0]).round(3)
