"""
Heart transplants and immortal time: covariates that change
===========================================================

In the Stanford heart transplant programme (Crowley and Hu, 1977), 103 patients waited for a heart,
and 69 received one. Comparing those with a transplant with those without is misleading: to receive
a heart, a patient had to survive until a donor was found.
"""

# %%
# The data come with lifelines, one row for each period without and with a transplant. Ages are in
# years from 48.

import matplotlib.pyplot as plt
import pandas as pd

from steropes import CoxRegression, Surv, kaplan_meier, plots
from steropes.datasets import load_heart_transplants

periods = load_heart_transplants()
patients = periods.sort_values("stop").groupby("id").last()
print(f"{len(patients)} patients, {patients['transplant'].sum()} transplants")

# %%
# The wrong analysis counts patients as transplanted from the day they joined the waiting list. The
# days that they had to live through first are the *immortal time*.

end = Surv(patients["stop"], patients["event"])
columns = ["transplant", "age", "surgery"]
wrong = CoxRegression().fit(patients[columns], end)

# %%
# The right analysis gives each patient's time before the transplant to the group without one. A
# row is at risk from ``start`` to ``stop``.

at_risk = Surv(periods["stop"], periods["event"], entry=periods["start"])
right = CoxRegression().fit(periods[columns], at_risk)
ratios = ["exp(coef)", "exp(lower)", "exp(upper)"]
pd.DataFrame(
    {
        "fixed from the start": wrong.summary().loc["transplant", ratios],
        "changing with time": right.summary().loc["transplant", ratios],
    }
).T.round(2)

# %%
# Curves of the two groups with changing membership (Simon and Makuch) show the same.

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
group = periods["transplant"].map({0: "waiting", 1: "transplanted"})
plots.survival_curves(kaplan_meier(at_risk, groups=group), time_label="Days", ax=ax)

# %%
# **Interpretation.** Counting the waiting time as time with a transplant makes transplantation seem
# to prevent most deaths. With the transplant as a covariate that changes on the day of the
# operation, the hazard ratio is close to one, with a wide interval: these data do not show whether
# transplantation prolonged life. The same error arises in drug studies when exposure is defined by
# something that happens after the start of follow-up.
