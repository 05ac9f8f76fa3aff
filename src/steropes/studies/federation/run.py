"""A federated analysis from its plan: in one process, or step by step in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steropes.errors import DataError
from steropes.federated import (
    CellRules,
    Exchange,
    FederatedPlan,
    FederatedResult,
    FederatedSite,
    InMemory,
    Message,
    WaitingError,
    fit_in_rounds,
)
from steropes.federated.encoding import write_message
from steropes.federated.exchange import Answering
from steropes.federated.folder import (
    FolderExchange,
    earlier_answers,
    latest_request,
    read_plan,
    start_folder,
)
from steropes.federated.one_shot import fit_one_shot
from steropes.federated.unchanged import refuse_changed
from steropes.studies.federation.profiles import FederatedProfiles, combine_site_profiles

__all__ = [
    "federate",
    "federate_answer",
    "federate_finish",
    "federate_init",
    "federate_step",
]


def federate(
    plan: FederatedPlan, sites: Mapping[str, FederatedSite | Answering]
) -> FederatedResult | FederatedProfiles:
    """Run a plan on sites that this process can call.

    Parameters
    ----------
    plan : FederatedPlan
    sites : dict of str to FederatedSite or callable
        A callable takes the plan and a request, a ``Message``, and returns the site's answer: a
        connection to wherever the site is.

    Returns
    -------
    FederatedResult
        Of profiles, a `FederatedProfiles`.

    Raises
    ------
    DataError
        A refusal of a site, or an answer that is none.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from steropes.studies import FederatedPlan, FederatedSite, federate
    >>> rng = np.random.default_rng(1)
    >>> def site(n):
    ...     x = rng.normal(size=n)
    ...     return pd.DataFrame({"x": x, "y": (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)})
    >>> plan = FederatedPlan(model="logistic", columns=("x",), sites=("north", "south"))
    >>> found = federate(plan, {s: FederatedSite(s, site(200)) for s in plan.sites})
    >>> found.summary().index.tolist()
    ['intercept[north]', 'intercept[south]', 'x']
    """
    calls = {name: _callable(site) for name, site in sites.items()}
    return _run(InMemory(plan, calls))


def _callable(site: FederatedSite | Answering) -> Answering:
    return site.answer if isinstance(site, FederatedSite) else site


def _run(exchange: Exchange) -> FederatedResult | FederatedProfiles:
    if exchange.plan.method == "profiles":
        return combine_site_profiles(exchange)
    if exchange.plan.method == "rounds":
        return fit_in_rounds(exchange)
    return fit_one_shot(exchange)


def federate_init(folder: str | Path, plan: FederatedPlan) -> Message:
    """Begin an analysis in a folder that all sites can read and write: plan and first request."""
    start_folder(folder, plan)
    found = federate_step(folder)
    assert isinstance(found, WaitingError)
    return latest_request(folder)[0]


def federate_answer(
    folder: str | Path, site: str, data: Any, rules: CellRules | None = None
) -> Message:
    """Answer the last request of a folder for a site, and write the answer into it.

    Parameters
    ----------
    folder : path
    site : str
    data : data frame, Arrow table, path to a Parquet or CSV file, or dict
        See `FederatedSite`.
    rules : CellRules, optional
        What the site does not let out: by default counts of one to four people.

    Returns
    -------
    Message
        The answer, or a refusal, which is written too so that the lead reads why.

    Raises
    ------
    DataError
        A request that is none of this plan, data that the model cannot use, or rows that are not
        those of the site's earlier answers: nothing is written.
    """
    plan = read_plan(folder)
    request, at = latest_request(folder)
    own = FederatedSite(site, data, rules)
    for asked, answered in earlier_answers(folder, site, request.round):
        refuse_changed(own, plan, asked, answered)
    message = own.answer(plan, request)
    for kind in ("json", "parquet"):
        (at / f"{site}.{kind}").unlink(missing_ok=True)
    write_message(message, at / site, plan.format)
    return message


def federate_step(
    folder: str | Path,
) -> WaitingError | FederatedResult | FederatedProfiles:
    """Take the lead's next step: write the next request, once all sites have answered the last.

    Returns
    -------
    WaitingError or FederatedResult or FederatedProfiles
        Which round waits for which sites, or what has been found when nothing is left to ask.

    Raises
    ------
    DataError
        A refusal, or a file that is no answer to its request, by name.
    """
    try:
        return _run(FolderExchange(folder))
    except WaitingError as waiting:
        return waiting


def federate_finish(
    folder: str | Path, output: str | Path | None = None
) -> FederatedResult | FederatedProfiles:
    """Write the result of a folder as JSON, by default ``result.json`` there."""
    found = federate_step(folder)
    if isinstance(found, WaitingError):
        raise DataError(
            f"{found}: let these sites answer, and take steps until there is nothing left to ask"
        )
    found.write(Path(folder) / "result.json" if output is None else output)
    return found
