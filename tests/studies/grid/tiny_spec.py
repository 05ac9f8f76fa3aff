"""A grid of two analyses, two outcomes and five controls."""

SPEC = """
database_id = "tiny"
[cohorts.drugs]
11 = { include = [1] }
12 = { include = [2] }
[cohorts.conditions]
13 = { include = [3] }
14 = { include = [4] }
[controls]
concepts = [5, 6, 7, 8, 9]

[thresholds]
balance = 0.5

[[question]]
target = 11
comparator = 12
outcomes = [13, 14]
exclude = [1, 2]

[[analysis]]
id = 1
description = "crude"
propensity = false
features = false
unadjusted = true
[analysis.at_risk]
end = 500
end_anchor = "cohort start"

[[analysis]]
id = 2
description = "weighted"
truncate = 10
[analysis.at_risk]
end = 500
end_anchor = "cohort start"
[analysis.features]
analyses = [1, 3, 6]
[analysis.propensity]
variance = 0.1
[analysis.outcome_model]
weighted = true
"""
