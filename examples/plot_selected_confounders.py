"""
High-dimensional propensity scores: which codes confound?
=========================================================

Claims have thousands of codes, and a few of them confound a comparison. High-dimensional propensity
scores (hdPS) choose those whose absence could bias the estimate most. Negative controls tell
whether the choice was good.
"""

# %%
# Simulate 8,000 people with 60 codes. Two codes raise both the probability of the drug and the risk
# of every outcome; one predicts the drug alone.

import numpy as np
import pandas as pd

import steropes
from steropes.designs import HighDimensionalPropensityScore, compare_selections
from steropes.designs.covariates import count_records

rng = np.random.default_rng(2)
n, codes = 8_000, 60
records = pd.DataFrame(
    {"person": rng.integers(0, n, 90_000), "code": rng.integers(0, codes, 90_000)}
)
records["source"] = np.where(records["code"] % 2, "diagnosis", "prescription")
counts = count_records(records, np.arange(n), id="person", covariate="code", dimension="source")
has = counts.matrix().toarray() > 0
people = pd.DataFrame({"age": rng.integers(40, 80, n)})
people["drug"] = rng.binomial(1, 1 / (1 + np.exp(1.5 - has[:, :3] @ [1.0, 1.0, 1.5])))
risk = 0.05 + 0.1 * has[:, :2].sum(axis=1)
people["stroke"] = rng.binomial(1, risk)

# %%
# The ranks are by the bias of Bross (1966): the prevalences in both groups and the risk ratio of
# the outcome.

hdps = HighDimensionalPropensityScore(k=10).fit(counts, people["drug"], people["stroke"])
hdps.plot()

# %%
# The third column predicts the drug but not the outcome. Adjustment for such an *instrument* makes
# estimates less precise and amplifies other biases; ``drop_instruments=True`` leaves it out.

hdps.ranks()[
    ["name", "target_share", "comparator_share", "risk_ratio", "log_bias", "selected"]
].head(4)

# %%
# Ten negative controls share the confounders. Their systematic error (EASE) says how much bias each
# selection leaves.

controls = pd.DataFrame({f"control {j}": rng.binomial(1, risk * 0.6) for j in range(10)})
table = compare_selections(
    {"nothing": None, "age": people[["age"]], "hdPS": hdps.covariates(), "all codes": counts},
    people["drug"],
    controls,
    model=steropes.LogisticRegression(),
    balance=counts,
)
table[["selection", "columns", "ease", "covered", "largest_smd"]].round(2)

# %%
# Ten columns suffice here. In a study of a database, ``StudyAnalysis(selection=...)`` fits such
# scores for each outcome and control, beside analyses with all covariates.
