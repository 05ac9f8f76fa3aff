"""
Restricted mean survival: months gained instead of a hazard ratio
=================================================================

A hazard ratio is hard to explain to a patient, and depends on the length of follow-up if hazards
are not proportional. The restricted mean, the mean time lived up to a given time, needs no such
assumption (Royston and Parmar, 2013). The North Central Cancer Treatment Group followed 228
patients with lung cancer (Loprinzi and others, 1994).
"""

# %%
# The data come with lifelines. How much longer do women live than men in the first two years?

import matplotlib.pyplot as plt

from steropes import (
    CoxRegression,
    Surv,
    datasets,
    kaplan_meier,
    logrank_test,
    plots,
    restricted_mean_test,
)

lung = datasets.load_lung().dropna(subset=["ph.ecog"])
months = lung["time"] / 30.44
outcome = Surv(months, lung["status"])
sex = lung["sex"].map({1: "man", 2: "woman"})

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
curves = kaplan_meier(outcome, groups=sex)
plots.survival_curves(curves, time_label="Months", ax=ax)

# %%
# The log-rank test says that the curves differ, and not by how much.

logrank_test(outcome, sex)

# %%
# Restricted means are the areas under the curves up to 24 months. Their difference is a number of
# months, with limits.

restricted_mean_test(outcome, sex, 24.0).round(2)

# %%
# Women may differ from men in age and in general condition. A Cox model averages the curves that
# all patients would have had as men, and as women.

x = lung[["age", "ph.ecog"]].assign(woman=(lung["sex"] == 2) * 1.0)
model = CoxRegression().fit(x, outcome)
adjusted = model.curves.standardized_survival(x, times=[24.0], by="woman")
adjusted.restricted_mean_differences.round(2)

# %%
# Adjusted for age and performance score, women live about three and a half of the first 24 months
# longer. Restricted means of single patients follow from their predicted curves:

patients = x.iloc[:3].assign(**{"months in 24": model.curves.restricted_mean(x.iloc[:3], 24.0)})
patients.round(1)
