"""
Validation of a risk score: optimism, calibration, decisions
============================================================

A model predicts the people to whom it was fitted better than others. How good are predictions of
recurrence within three years for women with breast cancer (Schumacher and others, 1994), and would
decisions that follow them be better than to treat everyone?
"""

# %%
# The data come with lifelines. All seven covariates enter the model; numbers by restricted cubic
# splines.

import matplotlib.pyplot as plt

from steropes import CoxRegression, Surv, calibration_table, datasets, decision_curve, plots

women = datasets.load_breast_cancer()
women["years"] = women["time"] / 365.25
model = CoxRegression.from_formula(
    "Surv(years, event) ~ horTh + menostat + tgrade + rcs(age, 3) + rcs(tsize, 3) + rcs(pnodes, 3)"
    " + rcs(progrec, 3)",
    women,
)
model.inference.term_tests().round(4)

# %%
# Each bootstrap draw is fitted again and evaluated in its own people and in those of the study.
# The mean difference, the optimism, is subtracted from the apparent performance.

model.validation.validate(100, random_state=1).round(3)

# %%
# The corrected slope of about 0.92 means that predictions for new women would be too extreme. The
# calibration curve shows where: the observed risk as a smooth function of the predicted one.

curve = model.validation.calibration_curve(3.0, n=40, random_state=1)
fig, ax = plt.subplots(figsize=(5, 5), layout="constrained")
ax.plot([0, 1], [0, 1], color="0.7", lw=1, ls="--", label="as predicted")
ax.plot(curve["predicted"], curve["apparent"], label="apparent")
ax.plot(curve["predicted"], curve["corrected"], label="corrected for optimism")
ax.set(xlabel="Predicted risk of recurrence in 3 years", ylabel="Observed risk", xlim=(0, 1))
ax.legend(frameon=False)

# %%
# Groups of women with similar risks, without a smooth curve and without correction:

risk = 1 - model.predict_survival(women, [3.0])[:, 0]
outcome = Surv(women["years"], women["event"])
plots.calibration(calibration_table(risk, outcome, time=3.0, bins=6))

# %%
# Would a decision at a threshold of risk do more good than harm? The net benefit counts a woman
# treated before her recurrence as one, and weighs a needless treatment by the odds of the
# threshold.

plots.decision_curve(decision_curve(risk, outcome, time=3.0))

# %%
# Between risks of about 15 % and 70 % decisions by the model are better than to treat everyone or
# no one. The curve is not corrected for optimism. The AUC by time has weights for censoring:

model.validation.time_dependent_auc(women, outcome, [1.0, 2.0, 3.0, 4.0]).round(3)
