"""
Surveillance: look by look, and at every level of a hierarchy
=============================================================

A regulator watches a new vaccine as doses are given. Two questions come up again and again: has a
suspected outcome become too frequent yet, and is there an outcome that nobody suspected?
"""

# %%
# Events of the suspected outcome are compared with the number expected at each of five looks. The
# bound keeps the probability of a false signal at any of them at 5 %.

import numpy as np
import pandas as pd

from steropes.designs.controls import SystematicError
from steropes.designs.surveillance import (
    adjusted_disproportionality,
    disproportionality,
    poisson_bound,
    report_counts,
    tree_scan,
    tree_temporal_scan,
)

expected = [5, 6, 6, 5, 8]  # between one look and the next
plain = poisson_bound(expected)
plain.monitor([4, 15, 28, 36, 48])

# %%
# There is a signal from the third look on. But expected numbers are never quite right: negative
# controls, which the vaccine cannot cause, are here 10 % too frequent, give or take 20 %. The same
# error may explain the signal, so that more events are needed, and there is none.

error = SystematicError(mean=0.1, sd=0.2, controls=50)
calibrated = poisson_bound(expected, systematic_error=error)
calibrated.monitor([4, 15, 28, 36, 48])

# %%
# The price is power: how likely is a signal if the vaccine doubles the rate, and after how many
# expected events does it come?

pd.DataFrame({"plain": plain.power(2), "calibrated": calibrated.power(2)}).round(2)

# %%
# For outcomes that nobody suspected, every node of a hierarchy of diagnoses is tested, and all of
# these tests are adjusted for. In simulated pairs of vaccinated and unvaccinated people two kinds
# of skin reactions are more frequent.

rng = np.random.default_rng(1)
leaves = {
    "skin": ["rash", "hives", "itching"],
    "nerves": ["headache", "seizure", "palsy"],
    "general": ["fever", "fatigue", "chills", "pain"],
}
tree = pd.DataFrame(
    [(leaf, group) for group, own in leaves.items() for leaf in own]
    + [(group, "any") for group in leaves],
    columns=["node", "parent"],
)
names = [leaf for own in leaves.values() for leaf in own]
rate = pd.Series(12.0, index=names)
ratio = pd.Series(1.0, index=names)
ratio[["rash", "hives"]] = 2.2
counts = pd.DataFrame(
    {"node": names, "cases": rng.poisson(rate * ratio), "controls": rng.poisson(rate)}
)
scan = tree_scan(counts, tree, model="bernoulli", conditional=False, probability=0.5)
scan.signals()[["node", "cases", "events", "expected", "p"]].round(3)

# %%
# The plot has the largest statistics and the bound of 5 %.

scan.plot(most=8)

# %%
# Hives are a signal, and so is the skin as a whole, to which rash contributes, whose own cases are
# too few. A signal is a reason to look closer, for example with a cohort study that adjusts for
# confounders, and no estimate of a risk.

# %%
# When do the reactions come? The days of cases after vaccination are compared with the other days
# of the same node, so that only the vaccinated are needed. Here most hives come within three days.

days = pd.DataFrame({"node": np.repeat(counts["node"], counts["cases"]), "cases": 1})
days["time"] = rng.integers(1, 29, len(days))
early = (days["node"] == "hives").to_numpy() & (rng.random(len(days)) < 0.6)
days.loc[early, "time"] = rng.integers(1, 4, early.sum())
in_time = tree_temporal_scan(days, tree, times=(1, 28), replicates=999)
in_time.signals()[["node", "first", "last", "cases", "expected", "p"]].round(3)

# %%
# Spontaneous reports have no people at risk. The reports that name a drug and an event are compared
# with the number expected if both were named independently. A drug that is reported together with
# another one inherits its events; a regression on all drugs takes these apart.

drugs = pd.DataFrame({"report": np.arange(3_000), "old": rng.random(3_000) < 0.2})
drugs["new"] = rng.random(3_000) < np.where(drugs["old"], 0.5, 0.1)
drugs["other"] = ~(drugs["old"] | drugs["new"])
drugs["rash"] = rng.random(3_000) < np.where(drugs["old"], 0.3, 0.1)  # the old drug's alone
drugs["fever"] = ~drugs["rash"] | (rng.random(3_000) < 0.2)
named = drugs.melt("report", ["old", "new", "other"], "drug").query("value")
events = drugs.melt("report", ["rash", "fever"], "event").query("value")
reports = named[["report", "drug"]].merge(events[["report", "event"]], on="report")
single = disproportionality(report_counts(reports)).set_index(["drug", "event"])
together = adjusted_disproportionality(reports).set_index(["drug", "event"])
single[["observed", "expected", "ror"]].join(together["adjusted_or"]).loc[["new", "old"]].round(2)

# %%
# By itself the new drug has a signal for rash, which vanishes beside the old drug.
