"""
Signals in a database, and a first look at one of them
======================================================

Which conditions follow the start of a drug more often than chance explains? All conditions of an
OMOP database are scanned at every level of the vocabulary, and a signal is examined by designs that
compare people with themselves. The database is simulated: celecoxib raises the rate of
gastrointestinal haemorrhage by half, and of nothing else.
"""

# %%
# New conditions in the 90 days after the start of celecoxib are compared with those in the 90 days
# before it, of the same people. Each person counts once in every node of the vocabulary, and the
# probability that any node is a signal without an effect is 5 %.

from steropes.studies import synthetic_database
from steropes.studies.case_only import OmopCaseOnly, case_only_study
from steropes.studies.cohorts import CohortSources, ConceptSet
from steropes.studies.monitoring import OmopTreeScan, scan_conditions

db = synthetic_database(20_000)
drug = CohortSources(drugs={1: ConceptSet((1118084,))})
question = OmopTreeScan(drug, target=1, days=(1, 90), control_days=(-90, -1), replicates=999)
found = scan_conditions(db, question)
print(found)

# %%
# Released numbers are multiples of the smallest count that may be shown. Who works with the data
# sees exact ones: the statistics of the nodes and the bound of 5 %.

found.scan.plot(most=10)

# %%
# A scan adjusts for nothing that changes between both windows, such as age and the reason for the
# prescription. Other designs ask about the signal alone. A self-controlled cohort compares the
# rates of all exposed people after and before the start; a risk interval compares the days of those
# who had a haemorrhage, and counts only their first.

sources = CohortSources(drugs=drug.drugs, conditions={3: ConceptSet((192671,))})
for design, settings in (
    ("self-controlled-cohort", {"risk": (1, 90), "control": (-90, -1)}),
    ("risk-interval", {"risk": (1, 90), "control": (-90, -1)}),
):
    study = case_only_study(db, OmopCaseOnly(sources, (1,), 3, design, **settings))
    print(study, end="\n\n")

# %%
# The designs have different biases, and agree that the outcome is more frequent. The next step is a
# study that adjusts for confounders and calibrates its result by negative controls, with a protocol
# that is frozen before (``steropes study --freeze``).
