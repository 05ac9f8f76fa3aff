"""A site that answers wrong sums: what the others can notice."""

import numpy as np
import pandas as pd
import pytest

from steropes.errors import DataError
from steropes.federated import FederatedPlan, FederatedSite, federated_site
from steropes.studies.federation import federate

SITES = ("north", "south", "west")


@pytest.mark.parametrize(
    ("field", "factor"),
    [("people", 9), ("events", 90), ("filled", 9), ("filled", -9),
     ("within", -9), ("first", 9)],
)  # fmt: skip
def test_a_total_that_no_rows_have_is_refused_by_name(field, factor, rng, monkeypatch):
    honest = federated_site.description

    def wrong(rows, plan, request):
        found = honest(rows, plan, request)
        return found | {field: found[field] * factor} if len(rows.y) == 500 else found

    monkeypatch.setattr(federated_site, "description", wrong)
    x = rng.normal(3, 1, 500)
    d = pd.DataFrame({"x": x, "y": (rng.random(500) < 0.3) * 1})
    tables = {"north": d, "south": d[:400], "west": d[:300]}
    plan = FederatedPlan("logistic", ("x",), SITES)
    name = "between" if field == "first" else field
    with pytest.raises(DataError, match=f"the total of '{name}' is impossible"):
        federate(plan, {s: FederatedSite(s, t) for s, t in tables.items()})
    monkeypatch.undo()
    assert np.isfinite(federate(plan, {s: FederatedSite(s, t) for s, t in tables.items()}).coef[0])
