"""A site answers the request that an honest lead makes, and no other."""

from dataclasses import replace

import numpy as np
import pytest
from federated_data import COLUMNS, OPEN, plan_of, site_tables
from owners import owners_of

from steropes.errors import DataError
from steropes.federated import FederatedSite, Message, OwnerRules, Round, SiteKeys
from steropes.studies.federation import federate

TABLES = site_tables("logistic", sites={"north": 120, "south": 140, "west": 100})
PLAN = plan_of("logistic", TABLES, baseline="common")


class Conversation:
    """The rounds of an honest fit, as the sites heard them."""

    def __init__(self, plan, tables, rules=OPEN):
        self.plan, self.rounds, self.tables = plan, [], tables
        self.owners = owners_of(tables, rules)
        self.sites = {s: FederatedSite(s, d, self.owners[s]) for s, d in tables.items()}

        def heard(plan, request, earlier):
            self.rounds, self.last = list(earlier), request
            return self.sites["north"].answer(plan, request, earlier)

        federate(plan, self.sites | {"north": heard})

    def fresh(self, site="west"):
        """A site that remembers nothing, with the same keys."""
        owner = self.owners[site]
        return FederatedSite(site, self.tables[site], replace_owner(owner))


def replace_owner(owner):
    from steropes.federated import Owner

    return Owner(owner.rules, owner.keys, owner.peers)


@pytest.fixture(scope="module")
def talk():
    return Conversation(PLAN, TABLES)


def test_honest_requests_are_answered(talk):
    for n, done in enumerate(talk.rounds):
        answer = talk.fresh().answer(PLAN, done.request, talk.rounds[:n])
        assert answer.sums == done.answers[-1].sums


@pytest.mark.parametrize("name", ["points", "intercepts", "center", "scale"])
@pytest.mark.parametrize("change", [1e-5, 1e3, -1.0])
def test_other_coefficients_are_refused(talk, name, change):
    done = talk.rounds[2]
    arrays = dict(done.request.arrays)
    arrays[name] = arrays[name] * (1 + change) + 1e-5 * change
    with pytest.raises(DataError, match="does not follow from the plan and the answers"):
        talk.fresh().answer(PLAN, replace(done.request, arrays=arrays), talk.rounds[:2])


def test_more_points_hessians_or_other_columns_are_refused(talk):
    done = talk.rounds[2]
    arrays = dict(done.request.arrays)
    points = np.vstack([arrays["points"]] * 2)
    for change in (
        {"points": points, "intercepts": np.tile(arrays["intercepts"], 2)},
        {"hessians": np.arange(2)}, {"columns": np.arange(2)}, {"folds": np.zeros(4)},
    ):  # fmt: skip
        request = replace(done.request, arrays=arrays | change)
        with pytest.raises(DataError, match="does not follow from"):
            talk.fresh().answer(PLAN, request, talk.rounds[:2])


def test_rounds_that_are_left_out_repeated_or_swapped_are_refused(talk):
    request = talk.rounds[2].request
    for earlier in ([], talk.rounds[:1], talk.rounds[:3], [talk.rounds[1], talk.rounds[0]]):
        with pytest.raises(DataError, match=r"rounds are finished|does not follow from"):
            talk.fresh().answer(PLAN, request, earlier)


def test_totals_that_are_pretended_are_refused(talk):
    """A lead that changes an answer would steer an honest computation."""
    done = talk.rounds[1]
    stranger = SiteKeys.generate()
    for sums in (bytes(len(done.answers[0].sums)), done.answers[1].sums):
        changed = replace(done.answers[0], sums=sums)
        signed = replace(changed, signature=stranger.sign(changed.digest))
        for answer in (changed, signed):
            rounds = [talk.rounds[0], replace(done, answers=(answer, *done.answers[1:]))]
            with pytest.raises(DataError, match="'north' in round 1 is not signed with the key"):
                talk.fresh().answer(PLAN, talk.rounds[2].request, rounds)


def test_answers_of_fewer_sites_or_of_strangers_are_refused(talk):
    done, request = talk.rounds[0], talk.rounds[1].request
    stranger = replace(done.answers[0], site="mid")
    for answers in (done.answers[:2], done.answers[::-1], (*done.answers, done.answers[0]),
                    (stranger, *done.answers[1:])):  # fmt: skip
        with pytest.raises(DataError, match=r"lacks the answer|answer of 'mid'"):
            talk.fresh().answer(PLAN, request, [replace(done, answers=answers)])


def test_a_lead_cannot_go_on_without_a_site_that_answered(talk):
    """The totals with and without a site are its own sums."""
    left = Round(talk.rounds[0].request, (), left=("south",))
    later = replace(talk.rounds[0].request, round=1, values={"sites": ["north", "west"]})
    with pytest.raises(DataError, match="continues without site 'south', which has not withdrawn"):
        talk.fresh().answer(PLAN, later, [left])
    forged = talk.rounds[0].request.reply("withdrawal", "south")
    forged = replace(forged, signature=SiteKeys.generate().sign(forged.digest))
    with pytest.raises(DataError, match="'south' in round 0 is not signed"):
        talk.fresh().answer(PLAN, later, [replace(left, answers=(forged,))])


def test_a_round_is_answered_to_one_request_only(talk):
    """Even one that two honest machines would round to."""
    done = talk.rounds[2]
    site = talk.fresh()
    first = site.answer(PLAN, done.request, talk.rounds[:2])
    assert site.answer(PLAN, done.request, talk.rounds[:2]).sums == first.sums
    arrays = {**done.request.arrays, "points": done.request.arrays["points"] * (1 + 1e-15)}
    with pytest.raises(DataError, match="has answered another request of round 2"):
        site.answer(PLAN, replace(done.request, arrays=arrays), talk.rounds[:2])


def test_what_is_asked_after_the_end_is_refused(talk):
    rounds = [*talk.rounds, finish(talk)]
    request = replace(rounds[-1].request, round=len(rounds))
    with pytest.raises(DataError, match="no further request"):
        talk.fresh().answer(PLAN, request, rounds)


def finish(talk):
    answers = [s.answer(PLAN, talk.last, talk.rounds) for s in talk.sites.values()]
    return Round(talk.last, tuple(answers))


def test_misplaced_requests_are_refused_by_name(talk):
    request = talk.rounds[0].request
    for change, said in (
        ({"study": "another"}, r"belongs to study 'another', not to the plan"),
        ({"kind": "answer"}, "not a request .kind 'answer'"),
        ({"round": 90}, "the plan's rounds are 0 to 59"),
        ({"values": {"sites": ["south"]}}, "has no request to this site"),
        ({"values": {}}, "'sites' must be a list of names"),
        ({"ask": "profile"}, "is not a request of this plan; there are describe, evaluate"),
    ):
        with pytest.raises(DataError, match=said):
            talk.fresh().answer(PLAN, replace(request, **change))


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"rounds": 2}, "the owner allows 2 rounds"),
        ({"points": 3}, "the owner allows 3 points"),
        ({"sites": 4}, "the owner allows totals of 4 sites"),
        ({"methods": ("profiles",)}, "does not allow the method 'rounds'"),
    ],
)
def test_the_owners_limits_hold_whatever_the_plan_says(rules, said):
    rules = replace(OPEN, **rules)
    with pytest.raises(DataError, match=said):
        Conversation(PLAN, TABLES, rules)


@pytest.mark.parametrize(
    ("ask", "more"),
    [
        ("estimate", {"baseline": "common", "method": "odal"}),
        ("profile", {"method": "profiles", "parameters": ("drug",)}),
    ],
)
def test_numbers_of_one_site_need_its_owners_consent(ask, more):
    plan = plan_of("logistic", TABLES, **more)
    with pytest.raises(DataError, match=f"has not consented to '{ask}'"):
        Conversation(plan, TABLES, OwnerRules(least=0))


def test_event_times_of_one_site_need_its_owners_consent():
    tables = site_tables("cox", sites={"north": 60, "south": 70, "west": 50})
    plan = plan_of("cox", tables, baseline="common")
    with pytest.raises(DataError, match="has not consented to 'times'"):
        Conversation(plan, tables, OwnerRules(least=0))


def test_the_programs_of_two_fits_at_once_do_not_mix():
    a = plan_of("logistic", TABLES, columns=("drug",))
    b = plan_of("logistic", TABLES, columns=COLUMNS[1:])
    one, other = Conversation(a, TABLES), Conversation(b, TABLES)
    for n in range(3):
        for talk in (one, other):
            request = talk.rounds[n].request
            assert talk.fresh().answer(talk.plan, request, talk.rounds[:n]).kind == "answer"
    message = Message("request", a.study, 0, "describe", values={"sites": list(TABLES)})
    assert one.fresh().answer(a, message).kind == "answer"
