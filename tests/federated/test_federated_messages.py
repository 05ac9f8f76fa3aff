"""Messages keep their digits, and what is no message is refused by name."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from steropes.errors import DataError
from steropes.federated import SCHEMA, FederatedPlan, FederatedSite, Message, message_schema
from steropes.federated.encoding import decode, encode

EXAMPLE = {
    "schema": SCHEMA, "kind": "request", "study": "0123456789abcdef", "round": 2,
    "ask": "surrogate", "id": "b8a39e066e3568581be2f8e33ab5ce17",
    "values": {"weight": 1.5, "sites": ["north", "west"]},
    "arrays": {"at": {"shape": [1, 2], "values": [0.1, -2]}},
}  # fmt: skip


def test_an_id_is_that_of_the_page():
    page = Path(__file__).parents[2] / "docs" / "federated_protocol.md"
    text = page.read_text(encoding="utf-8").split("```json\n")[1].split("```")[0]
    assert json.loads(text) == EXAMPLE
    assert Message.from_dict(EXAMPLE, "it").id == EXAMPLE["id"]
    same = Message("request", "a", 0, "evaluate", arrays={"x": np.array([0.0, np.nan])})
    other = Message("request", "a", 0, "evaluate", arrays={"x": np.array([-0.0, -np.nan])})
    assert same.id == other.id
    with pytest.raises(DataError, match="'odd' must be a number"):
        _ = Message("request", "a", 0, "evaluate", values={"odd": {"a": 1}}).id


def message(rng):
    arrays = {
        "points": rng.normal(size=(2, 3)) * 10.0 ** rng.integers(-300, 300, (2, 3)),
        "none": np.empty((0, 2)),
        "loss": np.array([np.inf, 1.0, -np.inf]),
        "columns": np.array([0, 5, 7]),
    }
    return Message("request", "abc", 3, "evaluate", values={"weight": 1.5}, arrays=arrays)


@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_arrays_come_back_with_all_their_digits(kind, rng):
    sent = message(rng)
    back = decode(encode(sent, kind), "it")
    assert back.id == sent.id
    assert back.values == sent.values
    for name, x in sent.arrays.items():
        assert np.array_equal(back.arrays[name], x)
    answer = sent.answered("north", {"rows": 5}, {"loss": np.array([0.1])})
    assert decode(encode(answer, kind), "it").request == sent.id
    refusal = sent.refused("north", ("too few",))
    assert decode(encode(refusal, kind), "it").reasons == ("too few",)


def test_the_id_is_of_all_that_is_in_a_request(rng):
    sent = message(rng)
    other = {**sent.arrays, "loss": np.array([np.inf, 1.0 + 2e-16, -np.inf])}
    assert Message("request", "abc", 3, "evaluate", arrays=other).id != sent.id


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "steropes.federated/9"}, "schema 'steropes.federated/9'"),
        ({"kind": "letter"}, "'kind' must be one of"),
        ({"ask": "everything"}, "'ask' must be one of"),
        ({"ask": "estimate"}, "its id is .* changed after the lead wrote it"),
        ({"round": True}, "'round' is missing, or not of type int"),
        ({"arrays": {"loss": {"shape": [-1], "values": [1.0]}}}, "not of whole numbers"),
        ({"kind": "refusal", "site": "a", "request": "", "reasons": []}, "sentences|nothing that"),
        ({"round": "3"}, "'round' is missing, or not of type int"),
        ({"arrays": {"loss": {"shape": [2], "values": [1.0]}}}, "do not make an array of its"),
        ({"arrays": {"loss": [1.0]}}, "an object with shape and values"),
        ({"arrays": {"loss": {"shape": [1], "values": ["much"]}}}, "do not make an array"),
    ],
)
def test_what_is_no_message_is_refused(change, said, rng):
    given = message(rng).to_dict() | change
    with pytest.raises(DataError, match=said):
        Message.from_dict(given, "the file")


def test_files_that_were_cut_off_are_refused(rng):
    for kind in ("json", "parquet"):
        content = encode(message(rng), kind)
        with pytest.raises(DataError, match=r"x.json cannot be read"):
            decode(content[: len(content) // 2], "x.json")
    with pytest.raises(DataError, match="not a message"):
        decode(b"[1, 2]", "x.json")


def test_the_schema_knows_what_is_sent(rng):
    schema = message_schema()
    sent = message(rng)
    kinds = {s["properties"]["kind"]["const"]: s for s in schema["oneOf"]}
    for one in (sent, sent.answered("a", {}, {}), sent.refused("a", ("no",))):
        assert set(one.to_dict()) == set(kinds[one.kind]["required"])
    assert schema["title"] == SCHEMA
    json.dumps(schema)


def test_a_site_answers_requests_of_its_plan_alone(rng):
    plan = FederatedPlan(model="logistic", columns=("x",), sites=("a",))
    site = FederatedSite("a", {"X": rng.normal(size=(20, 1)), "y": np.arange(20) % 2})
    request = Message("request", plan.study, 0, "describe")
    assert site.answer(plan, request).kind == "answer"
    for change, said in (
        ({"study": "another"}, r"request of study 'another', .* its plan"),
        ({"kind": "answer"}, "given no request .kind 'answer'"),
        ({"round": 90}, "the plan's rounds are 0 to 59"),
        ({"values": {"sites": ["b"]}}, "asks nothing of site 'a'"),
        ({"arrays": {"points": np.array([np.nan])}}, "'points' is NaN"),
    ):
        with pytest.raises(DataError, match=said):
            site.answer(plan, replace(request, **change))


GOOD = {"model": "logistic", "columns": ["a", "b"], "sites": ["x", "y"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "probit"}, "model must be one of"),
        ({"columns": []}, "name the columns"),
        ({"columns": ["a", "a"]}, "'a' twice"),
        ({"columns": ["a", "y"]}, "another role"),
        ({"sites": ["x", "../y"]}, "a name of letters"),
        ({"model": "cox"}, "needs event"),
        ({"model": "sccs", "strata": "s"}, "needs exposure"),
        ({"ties": "efron"}, "ties has no meaning"),
        ({"model": "cox", "event": "e", "times": [1.0]}, "baseline='common'"),
        ({"model": "cox", "event": "e", "baseline": "common", "times": [2.0, 1.0]}, "ascending"),
        ({"exclude": ["c"]}, "'c' is not one of the columns"),
        ({"method": "odac"}, "of cox models"),
        ({"method": "odal"}, "baseline='common'"),
        ({"method": "profiles"}, "needs parameters"),
        ({"lead": "z"}, "not one of the sites"),
        ({"variance": -1.0}, "positive"),
        ({"max_rounds": "many"}, "must be a number"),
        ({"colums": ["a"]}, "no setting 'colums'"),
        ({"order": 3}, "order must be one of"),
        ({"folds": 5}, "folds choose the variance of a prior"),
        ({"folds": 1, "prior": "normal"}, "folds must be a whole number from 2"),
        ({"folds": 5, "prior": "normal", "variance": 0.1}, "variance is what folds choose"),
        ({"folds": 5, "prior": "laplace", "method": "adap", "baseline": "common"}, "'rounds'"),
        ({"seed": 3}, "seed has no meaning without folds"),
        ({"groups": "person"}, "groups has no meaning without folds"),
        ({"folds": 5, "prior": "normal", "search": [0.0]}, "positive"),
        ({"cause": 2}, "cause has no meaning"),
        ({"model": "fine_gray", "event": "e", "baseline": "common", "strata": "s"}, "='site'"),
        ({"model": "fine_gray", "event": "e", "times": [1.0]}, "baseline='common'"),
        ({"entry": "t0"}, "entry has no meaning"),
    ],
)
def test_plans_that_make_no_sense_are_refused(change, said):
    with pytest.raises(DataError, match=said):
        FederatedPlan.from_dict(GOOD | change)


def test_a_plan_comes_back_from_json():
    plan = FederatedPlan.from_dict(GOOD | {"times": []})
    assert FederatedPlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    assert plan.study != FederatedPlan.from_dict(GOOD | {"tol": 1e-7}).study
