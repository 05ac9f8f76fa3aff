"""Verification of a request by a site: whether it is the request of an honest lead.

The lead's computation is deterministic. A site runs it on the plan and the finished rounds, adding
the signed answers of all sites itself, and compares the next request with the one that it received.
A lead can therefore neither choose coefficients nor invent totals that would make an honest
computation choose them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import DataError
from .data_owner import Owner
from .federated_plan import FederatedPlan
from .message_exchange import Round, check_answer, same_request
from .messages import Message
from .resumable_lead_program import HonestRequests
from .site_keys import PublicKeys

__all__ = ["refuse_dishonest", "refuse_unsigned"]


def refuse_dishonest(
    site: str, plan: FederatedPlan, request: Message, earlier: Sequence[Round], owner: Owner,
    honest: HonestRequests,
) -> None:  # fmt: skip
    """Raise `DataError` for a request that an honest lead would not make.

    Parameters
    ----------
    site : str
        Name of this site.
    earlier : sequence of Round
        All finished rounds.
    owner : Owner
        The owner of this site's data.
    honest : HonestRequests
        Requests that sites in this process have computed so far.
    """
    if site not in plan.sites:
        known = ", ".join(map(repr, plan.sites))
        raise DataError(f"the plan does not name this site; it names {known}")
    _refuse_misplaced(site, plan, request, len(earlier))
    keys = {site: owner.keys.public, **owner.peers}
    for done in earlier:
        refuse_unsigned(done, keys)
        _refuse_unconfirmed(site, done, owner.rules.gone)
    expected = honest.after(plan, earlier)
    if not same_request(request, expected):
        raise DataError(
            f"the request of round {request.round} does not follow from the plan and the answers "
            f"so far (an honest lead asks for {expected.ask!r}). Do not answer it. If the lead is "
            "honest, a message was changed or lost, or the versions of steropes differ"
        )


def _refuse_misplaced(site: str, plan: FederatedPlan, request: Message, rounds: int) -> None:
    """Raise `DataError` unless a message is a request to this site in the plan's next round."""
    if request.kind != "request":
        raise DataError(f"this is not a request (kind {request.kind!r}): answer the lead's request")
    if request.study != plan.study:
        raise DataError(
            f"this request belongs to study {request.study[:16]!r}, not to the plan "
            f"{plan.study[:16]!r}: get the plan and the request that belong together"
        )
    if request.ask not in plan.asks:
        raise DataError(
            f"{request.ask!r} is not a request of this plan; there are {', '.join(plan.asks)}"
        )
    if not 0 <= request.round < plan.max_rounds:
        raise DataError(
            f"this is a request of round {request.round}, but the plan's rounds are 0 to "
            f"{plan.max_rounds - 1} (max_rounds)"
        )
    if request.round != rounds:
        raise DataError(
            f"this is a request of round {request.round}, but {rounds} rounds are finished: all "
            "rounds before a request must come with it, and each is answered once"
        )
    if site not in request.sites:
        raise DataError(f"round {request.round} has no request to this site")


def refuse_unsigned(done: Round, keys: Mapping[str, PublicKeys]) -> None:
    """Raise `DataError` if an answer of a round is not signed, or does not answer its request."""
    request = done.request
    wanted = [s for s in request.sites if s not in done.left]
    replies = {a.site: a for a in done.answers}
    if not done.left and (list(replies) != wanted or len(replies) != len(done.answers)):
        raise DataError(f"round {request.round} lacks the answer of a site, or their order differs")
    for name, reply in replies.items():
        if name not in request.sites or name not in keys:
            raise DataError(
                f"round {request.round} has an answer of {name!r}, whose public key is not known "
                "here, or who was not asked"
            )
        where = f"the answer of site {name!r}"
        check_answer(reply, request, name, where)
        if reply.kind != ("withdrawal" if done.left else "answer"):
            raise DataError(f"{where} in round {request.round} is a {reply.kind}")
        if not keys[name].verify(reply.signature, reply.digest):
            raise DataError(
                f"{where} in round {request.round} is not signed with the key of that site: it was "
                "changed, or does not come from the site"
            )


def _refuse_unconfirmed(site: str, done: Round, gone: Sequence[str]) -> None:
    """Raise `DataError` if a site left that neither withdrew nor is known by the owner to be gone.

    A lead could otherwise claim that a site left although it has its answer, and obtain totals with
    and without the site, whose difference is the site's own answer.
    """
    withdrew = {a.site for a in done.answers if a.kind == "withdrawal"}
    for name in done.left:
        if name == site:
            raise DataError(f"the lead continued without this site in round {done.request.round}")
        if name not in withdrew and name not in gone:
            raise DataError(
                f"the lead continues without site {name!r}, which has not withdrawn. Ask its "
                f"owner; if it no longer answers, add {name!r} to 'gone' in this site's rules"
            )
