"""Envelopes: a request with everything that a site needs to check it, for any transport."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..errors import DataError
from .federated_plan import FederatedPlan
from .message_exchange import Round
from .message_files import LARGEST_FILE
from .messages import Message

__all__ = ["pack_envelope", "read_envelope"]


def pack_envelope(plan: FederatedPlan, request: Message, rounds: Sequence[Round]) -> bytes:
    """Encode the plan, a request and the finished rounds as JSON.

    Raises
    ------
    DataError
        Together they are larger than a site reads.
    """
    earlier = [
        {
            "request": r.request.to_dict(),
            "answers": [a.to_dict() for a in r.answers],
            "left": list(r.left),
        }
        for r in rounds
    ]
    content = {"plan": plan.to_dict(), "request": request.to_dict(), "rounds": earlier}
    packed = json.dumps(content, allow_nan=False).encode()
    if len(packed) > LARGEST_FILE:
        raise DataError(
            f"round {request.round} with all rounds before it has more than {LARGEST_FILE >> 20} "
            "MB, which no site reads: use a shared folder, or a plan with fewer columns or folds"
        )
    return packed


def read_envelope(content: bytes) -> tuple[FederatedPlan, Message, list[Round]]:
    """Decode the result of `pack_envelope`.

    Raises
    ------
    DataError
        The content is invalid or too large.
    """
    if len(content) > LARGEST_FILE:
        raise DataError(f"the request has more than {LARGEST_FILE >> 20} MB, which none needs")
    try:
        given = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"the request cannot be read: {error}") from None
    if not isinstance(given, dict) or not isinstance(given.get("rounds"), list):
        raise DataError("the request must be an object with 'plan', 'request' and 'rounds'")
    plan = FederatedPlan.from_dict(given.get("plan"), "the plan")
    request = Message.from_dict(given.get("request"), "the request")
    return plan, request, [_round(r, n) for n, r in enumerate(given["rounds"])]


def _round(given: object, n: int) -> Round:
    """Decode a finished round."""
    where = f"round {n}"
    if (
        not isinstance(given, dict)
        or not all(isinstance(given.get(k), list) for k in ("answers", "left"))
        or not all(isinstance(s, str) for s in given["left"])
    ):
        raise DataError(f"{where} must be an object with 'request', 'answers' and 'left'")
    answers = tuple(Message.from_dict(a, f"an answer of {where}") for a in given["answers"])
    request = Message.from_dict(given.get("request"), f"the request of {where}")
    return Round(request, answers, tuple(given["left"]))
