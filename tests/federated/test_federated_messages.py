"""Messages keep their digits, and what is no message is refused by name."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from steropes.errors import DataError
from steropes.federated import SCHEMA, FederatedPlan, Message, message_schema
from steropes.federated.answer_layout import FIELDS
from steropes.federated.message_files import LARGEST_FILE, decode, encode, read_message, write_new

PAGE = (Path(__file__).parents[2] / "docs" / "federated_protocol.md").read_text(encoding="utf-8")


def test_the_digest_of_the_page_is_that_of_its_message():
    example = json.loads(PAGE.split("```json\n")[1].split("```")[0])
    message = Message.from_dict(example, "it")
    assert message.id == example["id"]
    assert message.digested_text().strip() in PAGE
    same = Message("request", "a", 0, "evaluate", arrays={"x": np.array([0.0])})
    other = Message("request", "a", 0, "evaluate", arrays={"x": np.array([-0.0])})
    assert same.id == other.id
    with pytest.raises(DataError, match="'odd' must be a number"):
        _ = Message("request", "a", 0, "evaluate", values={"odd": {"a": 1}}).id


def test_the_page_lists_the_fields():
    lines = ["| ask | field | shape | when |", "|---|---|---|---|"]
    for f in FIELDS:
        shape = f"({', '.join(f.shape)})" if f.shape else "one number"
        name = "each of `parameters`" if f.name == "*" else f"`{f.name}`"
        lines.append(f"| `{f.ask}` | {name} | {shape} | {f.when} |")
    assert "\n".join(lines) + "\n" in PAGE
    above = PAGE.split("## The fields of an answer")[0]
    assert [f.name for f in FIELDS if f.name != "*" and f"`{f.name}`" not in above] == []


def message(rng):
    arrays = {
        "points": rng.normal(size=(2, 3)) * 10.0 ** rng.integers(-300, 300, (2, 3)),
        "none": np.empty((0, 2)),
        "loss": np.array([np.inf, 1.0, -np.inf]),
        "columns": np.array([0, 5, 7]),
    }
    return Message("request", "abc", 3, "evaluate", values={"weight": 1.5}, arrays=arrays)


def test_arrays_and_bytes_come_back_with_all_their_digits(rng):
    sent = message(rng)
    back = decode(encode(sent), "it")
    assert back.id == sent.id
    assert back.values == sent.values
    for name, x in sent.arrays.items():
        assert np.array_equal(back.arrays[name], x)
    sums = rng.bytes(240)
    answer = replace(sent.reply("answer", "north", sums=sums), signature=b"s" * 64)
    again = decode(encode(answer), "it")
    assert (again.request, again.sums, again.signature) == (sent.id, sums, b"s" * 64)
    assert again.digest == answer.digest
    refusal = sent.reply("refusal", "north", reasons=("too few",))
    assert decode(encode(refusal), "it").reasons == ("too few",)
    withdrawal = sent.reply("withdrawal", "north")
    assert decode(encode(withdrawal), "it").kind == "withdrawal"


def test_the_digest_is_of_all_that_is_in_a_message(rng):
    sent = message(rng)
    answer = sent.reply("answer", "north", sums=b"a" * 24)
    other = {**sent.arrays, "loss": np.array([np.inf, 1.0 + 2e-16, -np.inf])}
    changed = [
        replace(sent, arrays=other), replace(sent, round=4), replace(sent, values={"weight": 1.0}),
        replace(answer, sums=b"b" * 24), replace(answer, site="south"),
        replace(answer, request="0"), replace(answer, kind="withdrawal"),
        replace(answer, values={"a": 1}), answer,
    ]  # fmt: skip
    assert len({m.digest for m in [sent, *changed]}) == 1 + len(changed)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "steropes.federated/9"}, "schema 'steropes.federated/9'"),
        ({"kind": "letter"}, "'kind' must be one of"),
        ({"ask": "everything"}, "'ask' must be one of"),
        ({"ask": "describe"}, "its id is .* changed after the lead wrote it"),
        ({"round": True}, "'round' is missing, or not of type int"),
        ({"arrays": {"loss": {"shape": [-1], "values": [1.0]}}}, "not of whole numbers"),
        ({"kind": "refusal", "site": "a", "request": "", "signature": "", "reasons": []},
         "sentences|has no"),
        ({"round": "3"}, "'round' is missing, or not of type int"),
        ({"arrays": {"loss": {"shape": [2], "values": [1.0]}}}, "do not make an array of its"),
        ({"arrays": {"loss": {"shape": [10**12], "values": [1.0]}}}, "do not make an array of its"),
        ({"arrays": {"loss": [1.0]}}, "an object with shape and values"),
        ({"arrays": {"loss": {"shape": [1], "values": ["much"]}}}, "do not make an array"),
        ({"arrays": {"loss": {"shape": [1], "values": [float("nan")]}}}, "do not make an array"),
        ({"values": {"odd": {"a": 1}}}, "'odd' must be a number"),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused(change, said, rng):
    given = message(rng).to_dict() | change
    with pytest.raises(DataError, match=said):
        Message.from_dict(given, "the file")


def test_bytes_that_are_no_base64_are_refused(rng):
    given = message(rng).reply("answer", "north").to_dict()
    for name in ("sums", "signature"):
        with pytest.raises(DataError, match=f"{name!r} must be bytes in base64"):
            Message.from_dict(given | {name: "a?"}, "the file")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"a": ', "x.json cannot be read"),
        (b"[" * 100_000, "x.json cannot be read"),
        (b"[1, 2]", "not a message"),
        (b'{"round": ' + b"9" * 5000 + b"}", "too many digits"),
        (b"PAR1", "x.json cannot be read"),
    ],
)
def test_files_that_are_no_messages_are_refused(content, said):
    with pytest.raises(DataError, match=said):
        decode(content, "x.json")


def test_a_file_is_read_only_if_it_is_a_small_regular_one(tmp_path, rng):
    content = encode(message(rng))
    path = write_new(tmp_path / "a.json", content)
    assert read_message(path)[1] == len(content)
    with pytest.raises(DataError, match=r"a.json exists already"):
        write_new(path, content)
    link = tmp_path / "b.json"
    link.symlink_to(path)
    with pytest.raises(DataError, match=r"b.json cannot be read"):
        read_message(link)
    with pytest.raises(DataError, match="exists already"):
        write_new(link, content)
    (tmp_path / "c.json").symlink_to(tmp_path / "nowhere.json")
    with pytest.raises(DataError, match="exists already"):
        write_new(tmp_path / "c.json", content)
    assert not (tmp_path / "nowhere.json").exists()
    with pytest.raises(DataError, match="not a regular file"):
        read_message(tmp_path)
    with (tmp_path / "d.json").open("wb") as file:
        file.truncate(LARGEST_FILE + 1)
    with pytest.raises(DataError, match=r"d.json has more than 64 MB"):
        read_message(tmp_path / "d.json")
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"{n}.json" for n in "abcd"]


def test_the_schema_knows_what_is_sent(rng):
    schema = message_schema()
    sent = message(rng)
    kinds = {s["properties"]["kind"]["const"]: s for s in schema["oneOf"]}
    for kind in ("answer", "refusal", "withdrawal"):
        reply = sent.reply(kind, "a", reasons=("no",) if kind == "refusal" else ())
        assert set(reply.to_dict()) == set(kinds[kind]["required"])
    assert set(sent.to_dict()) == set(kinds["request"]["required"])
    assert schema["title"] == SCHEMA
    json.dumps(schema)


GOOD = {"model": "logistic", "columns": ["a", "b"], "sites": ["x", "y", "z"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": "probit"}, "model must be one of"),
        ({"columns": []}, "name the columns"),
        ({"columns": ["a", "a"]}, "'a' twice"),
        ({"columns": ["a", "y"]}, "another role"),
        ({"sites": ["x", "../y", "z"]}, "a name of letters"),
        ({"sites": ["x", "y", "é"]}, "a name of letters"),
        ({"sites": ["x", "y", "Request"]}, "this one is reserved"),
        ({"sites": ["x", "y", "X"]}, "differ only in their case"),
        ({"sites": ["x", "y"]}, "at least 3 sites"),
        ({"per_site": True}, "asks only for totals"),
        ({"per_site": 1}, "per_site must be true or false"),
        ({"min_sites": 2}, "min_sites must be at least 3"),
        ({"model": "cox", "event": "e", "baseline": "common"}, "give the plan a grid of times"),
        ({"model": "cox"}, "needs event"),
        ({"model": "sccs", "strata": "s"}, "needs exposure"),
        ({"ties": "efron"}, "ties has no meaning"),
        ({"model": "cox", "event": "e", "times": [1.0]}, "baseline='common'"),
        ({"model": "cox", "event": "e", "baseline": "common", "times": [2.0, 1.0]}, "ascending"),
        ({"exclude": ["c"]}, "'c' is not one of the columns"),
        ({"method": "odac"}, "for cox models"),
        ({"method": "odal"}, "baseline='common'"),
        ({"method": "odal", "baseline": "common"}, "set per_site=true"),
        ({"method": "profiles"}, "needs parameters"),
        ({"lead": "w"}, "not one of the sites"),
        ({"variance": -1.0}, "positive"),
        ({"max_rounds": "many"}, "must be a number"),
        ({"colums": ["a"]}, "no setting 'colums'"),
        ({"order": 3}, "order must be one of"),
        ({"folds": 5}, "folds choose the variance of a prior"),
        ({"folds": 1, "prior": "normal"}, "folds must be a whole number from 2"),
        ({"folds": 5, "prior": "normal", "variance": 0.1}, "folds choose the variance"),
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
