"""Runs of a plan with sites that this process can call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..errors import DataError
from .federated_plan import FederatedPlan
from .federated_site import FederatedSite
from .message_exchange import Round, check_answer
from .messages import Message
from .request_verification import refuse_unsigned
from .resumable_lead_program import HonestRequests, LeadProgram, LeadResult
from .site_keys import PublicKeys

__all__ = ["Answering", "run_in_memory"]

Answering = Callable[[FederatedPlan, Message, Sequence[Round]], Message]


def run_in_memory(
    plan: FederatedPlan,
    sites: Mapping[str, FederatedSite | Answering],
    peers: Mapping[str, PublicKeys] | None = None,
) -> LeadResult:
    """Run a plan by calling the sites one after another.

    Parameters
    ----------
    sites : dict of str to FederatedSite or callable
        The sites by name. Those in this process learn each other's public keys here.
    peers : dict of str to PublicKeys, optional
        Public keys of sites that are callables, to check their signatures.

    Returns
    -------
    FederatedResult or Profiles
    """
    gone = [s for s in plan.sites if s not in sites]
    if gone:
        raise DataError(f"the plan's site {gone[0]!r} is missing")
    honest = HonestRequests()
    here = {name: site for name, site in sites.items() if isinstance(site, FederatedSite)}
    keys = {**(peers or {}), **{name: site.owner.keys.public for name, site in here.items()}}
    for name, site in here.items():
        site.meet({other: public for other, public in keys.items() if other != name})
        site.honest = honest
    call = {n: s.answer if isinstance(s, FederatedSite) else s for n, s in sites.items()}
    program, rounds = LeadProgram(plan), list[Round]()
    while (request := program.request) is not None:
        answers, left = [], []
        for name in request.sites:
            try:
                given = call[name](plan, request, tuple(rounds))
            except ConnectionError:
                left.append(name)
                continue
            answer = replace(given, arrays={k: np.asarray(x) for k, x in given.arrays.items()})
            check_answer(answer, request, name, f"the answer of site {name!r}")
            answers.append(answer)
        left += [a.site for a in answers if a.kind == "withdrawal"]
        if left:
            answers = [a for a in answers if a.kind == "withdrawal"]
        done = Round(request, tuple(answers), tuple(s for s in request.sites if s in left))
        if all(a.site in keys and a.kind != "refusal" for a in answers):
            refuse_unsigned(done, keys)
        rounds.append(done)
        program.resume(done)
    assert program.found is not None
    return program.found
