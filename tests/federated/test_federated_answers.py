"""Answers of every family have the fields of the page, and what no rows can say is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from federated_data import COLUMNS, ROLES, site_tables

from steropes.errors import DataError
from steropes.federated import CellRules, FederatedPlan, FederatedSite, Message
from steropes.federated.consistent import SiteHistory
from steropes.federated.contents import FIELDS, contents_table, refuse_contents
from steropes.federated.possible import refuse_impossible
from steropes.studies import federate

SITES = {"north": 110, "south": 140, "west": 80}
FOLDS = {"prior": "normal", "folds": 2, "search": (1.0,)}
GRID = (0.2, 0.5, 1.0, 2.0, 4.0, 99.0)
CASES = {
    "linear": {},
    "linear-folds": FOLDS,
    "logistic": {},
    "logistic-odal": {"method": "odal", "baseline": "common"},
    "logistic-profiles": {"method": "profiles", "parameters": ("drug",)},
    "poisson": {"baseline": "common"},
    "cox": {},
    "cox-common": {"baseline": "common"},
    "cox-grid": {"baseline": "common", "times": GRID, **FOLDS},
    "fine_gray-common": {"baseline": "common"},
    "fine_gray-late": {"baseline": "common", "entry": "e", "times": GRID, **FOLDS},
    "conditional": {},
    "conditional-folds": {"ties": "efron", **FOLDS},
    "sccs": {},
    "sccs-folds": FOLDS,
    "cox-folds": {"weight": None, **FOLDS},
    "fine_gray-folds": FOLDS,
    "cox-odac": {"method": "odac"},
}


def conversation(case):
    """The plan, and the requests to one site with its answers."""
    model = case.split("-")[0]
    tables = site_tables(model, sites=SITES)
    if model == "cox":
        tables = {s: d.assign(t=np.minimum(d.t, 99.0)) for s, d in tables.items()}
    plan = FederatedPlan(
        model=model, columns=COLUMNS, sites=tuple(tables), **{**ROLES[model], **CASES[case]}
    )
    sites = {s: FederatedSite(s, d, CellRules(0)) for s, d in tables.items()}
    said = []

    def heard(plan, request):
        answer = sites["north"].answer(plan, request)
        said.append((request, answer))
        return answer

    if plan.method == "profiles":
        heard(plan, Message("request", plan.study, 0, "profile"))
    else:
        federate(plan, sites | {"north": heard})
    return plan, said


def refuse(plan, request, answer, first):
    refuse_contents(plan, request, answer)
    refuse_impossible(plan, request, answer, first)
    SiteHistory(first).add(plan, request, answer)


def wrong(name, x):
    """What a field cannot be."""
    if not isinstance(x, np.ndarray):
        yield from ({"a": 1}, None, float("nan"), [3.5])
        if name in ("rows", "people", "events"):
            yield from (-x, x + 0.5, True)
        return
    yield x[..., None]
    yield x.astype(str)
    if x.size:
        if "times" not in name:  # how many there are is the site's to say
            yield x.ravel()[1:]
        yield np.full(x.shape, -np.inf)
        yield np.where(np.arange(x.size).reshape(x.shape) == x.size - 1, -1e160, x)


@pytest.mark.parametrize("case", CASES)
def test_what_no_rows_can_say_is_refused_by_site_and_field(case):
    plan, said = conversation(case)
    seen = set()
    for request, answer in said[:3] + said[-1:]:
        for part in ("values", "arrays"):
            given = dict(getattr(answer, part))
            for name, x in given.items():
                seen.add(name)
                gone = {k: v for k, v in given.items() if k != name}
                for change in (gone, *(given | {name: bad} for bad in wrong(name, x))):
                    with pytest.raises(DataError, match=f"site 'north'.*'{name}'"):
                        refuse(plan, request, replace(answer, **{part: change}), said[0][1])
            with pytest.raises(DataError, match=r"site 'north' .*'more', an? .* not asked for"):
                refuse(plan, request, replace(answer, **{part: given | {"more": x}}), said[0][1])
    asks = {request.ask for request, _ in said}
    listed = {f.name for f in FIELDS if f.ask in asks} | set(plan.parameters)
    assert seen <= listed


def test_who_leaves_has_entered():
    plan, said = conversation("fine_gray-late")
    request, answer = said[0]
    enter = answer.arrays["enter"]
    for change in (enter[:, ::-1], 9 * enter, enter[::-1]):
        other = replace(answer, arrays={**answer.arrays, "enter": change})
        with pytest.raises(DataError, match=r"site 'north'.*'enter' must be"):
            refuse(plan, request, other, answer)


@pytest.mark.parametrize("case", ["conditional-folds", "sccs-folds", "cox-folds"])
def test_probabilities_above_one_are_refused(case):
    plan, said = conversation(case)
    request, answer = said[2]
    for name, x in (("loss", -1.0), ("held_out", 1.0)):
        arrays = {**answer.arrays, name: answer.arrays[name] + 0.0}
        at = request.arrays["folds"] >= 0
        arrays[name][at] = x
        with pytest.raises(DataError, match=f"site 'north'.*'{name}' must be 0 or"):
            refuse(plan, request, replace(answer, arrays=arrays), said[0][1])


def test_a_surrogate_without_information_is_refused():
    plan, said = conversation("cox-odac")
    request, answer = said[-1]
    assert request.ask == "surrogate"
    arrays = {**answer.arrays, "hessian": np.zeros_like(answer.arrays["hessian"])}
    with pytest.raises(DataError, match=r"site 'north'.*'hessian' must be positive definite"):
        refuse(plan, request, replace(answer, arrays=arrays), said[0][1])


@pytest.mark.parametrize(
    ("case", "name", "fields"),
    [("logistic", "loss", "'loss' and 'gradient'"), ("sccs", "loss", "'loss' and 'gradient'"),
     ("cox-common", "S", "'S' and 'S1'"), ("cox-common", "covariates", "'covariates'")],
)  # fmt: skip
def test_rounds_that_contradict_each_other_are_refused(case, name, fields):
    plan, said = conversation(case)
    history = SiteHistory(said[0][1])
    request, answer = said[4]
    changed = answer.arrays[name].copy()
    changed[-1] *= 0.7
    said[4] = request, replace(answer, arrays={**answer.arrays, name: changed})

    def listen():
        for request, answer in said:
            history.add(plan, request, answer)

    with pytest.raises(DataError, match=f"of site 'north' contradict each other: {fields}"):
        listen()


@pytest.mark.parametrize("case", ["logistic", "cox", "conditional"])
def test_a_hessian_that_is_not_how_slopes_change_is_refused(case):
    plan, said = conversation(case)
    history = SiteHistory(said[0][1])
    for request, answer in said[:-1]:
        history.add(plan, request, answer)
    request, answer = said[-1]
    changed = {**answer.arrays, "hessian": 0.4 * answer.arrays["hessian"]}
    with pytest.raises(DataError, match=r"'gradient' and 'hessian' in rounds .* same rows"):
        history.add(plan, request, replace(answer, arrays=changed))


def test_the_page_lists_the_fields():
    page = Path(__file__).parents[2] / "docs" / "federated_protocol.md"
    text = page.read_text(encoding="utf-8")
    assert contents_table() in text
    for f in FIELDS:
        above = text.split("## The fields of an answer")[0]
        assert f.name == "*" or f"`{f.name}`" in above
