"""Federated analyses of a plan, in one process or step by step in a shared folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from steropes.errors import DataError
from steropes.federated import (
    FederatedPlan,
    FederatedResult,
    FederatedSite,
    Message,
    Owner,
    OwnerRules,
    PublicKeys,
    WaitingError,
)
from steropes.federated.in_process_run import Answering, run_in_memory
from steropes.federated.message_files import read_json
from steropes.federated.resumable_lead_program import LeadResult, Profiles
from steropes.federated.shared_folder import (
    history,
    read_plan,
    run_in_folder,
    start_folder,
    write_answer,
    write_result,
)
from steropes.studies.federation.site_profiles import FederatedProfiles, combine_site_profiles

__all__ = [
    "FederatedPlan",
    "FederatedResult",
    "FederatedSite",
    "Owner",
    "OwnerRules",
    "combined",
    "federate",
    "federate_answer",
    "federate_finish",
    "federate_init",
    "federate_step",
    "federate_withdraw",
    "read_public_keys",
    "with_note",
]

UNSIGNED = (
    "the signatures of the last answers were not checked, because the lead had no public keys of "
    "the sites (peers=, --keys)"
)


def federate(
    plan: FederatedPlan,
    sites: Mapping[str, FederatedSite | Answering],
    peers: Mapping[str, PublicKeys] | None = None,
) -> FederatedResult | FederatedProfiles:
    """Run a plan on sites that this process can call.

    Parameters
    ----------
    plan : FederatedPlan
        Model, columns, sites and method.
    sites : dict of str to FederatedSite or callable
        A callable receives the plan, a request (a ``Message``) and the finished rounds, and returns
        the site's signed answer, for example over a network connection. If it raises a
        ``ConnectionError`` the site is assumed to have left.
    peers : dict of str to PublicKeys, optional
        Public keys of the sites that are callables.

    Returns
    -------
    FederatedResult
        Or `FederatedProfiles` for a plan of profiles.

    Raises
    ------
    DataError
        A site refuses, or its answer is invalid.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from steropes.studies.federation import FederatedPlan, FederatedSite, federate
    >>> rng = np.random.default_rng(1)
    >>> def site(n):
    ...     x = rng.normal(size=n)
    ...     return pd.DataFrame({"x": x, "y": (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int)})
    >>> plan = FederatedPlan(model="logistic", columns=("x",), sites=("north", "south", "west"))
    >>> found = federate(plan, {s: FederatedSite(s, site(400)) for s in plan.sites})
    >>> found.summary().index.tolist()
    ['x']
    """
    return combined(run_in_memory(plan, sites, peers))


def read_public_keys(folder: str | Path) -> dict[str, PublicKeys]:
    """Read the public keys of sites, with which the lead checks their signatures.

    Parameters
    ----------
    folder : path
        Folder with a file ``SITE.json`` for each site, which ``steropes federate keys`` printed.

    Returns
    -------
    dict of str to PublicKeys
        The keys by site.

    Raises
    ------
    DataError
        The folder has no such file, or one without keys.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from steropes.studies.federation import Owner, read_public_keys
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     public = Owner.create(f"{folder}/owner").keys.public
    ...     text = json.dumps(public.to_dict())
    ...     made = Path(f"{folder}/north.json").write_text(text)
    ...     read_public_keys(folder)["north"] == public
    True
    """
    files = sorted(Path(folder).glob("*.json"))
    if not files:
        raise DataError(
            f"{folder} has no public keys: it must contain a file SITE.json for each site, as "
            "`steropes federate keys` prints it"
        )
    return {path.stem: PublicKeys.from_dict(read_json(path), str(path)) for path in files}


def with_note(
    found: FederatedResult | FederatedProfiles, note: str
) -> FederatedResult | FederatedProfiles:
    """Return a result with a further note."""
    return replace(found, notes=[*found.notes, note])


def combined(found: LeadResult) -> FederatedResult | FederatedProfiles:
    """Return the result of a finished run; profiles of sites are combined."""
    return combine_site_profiles(found) if isinstance(found, Profiles) else found


def federate_init(folder: str | Path, plan: FederatedPlan) -> Message:
    """Start an analysis in a shared folder: write the plan and the first request.

    Parameters
    ----------
    folder : path
        The folder, to which all sites have access.
    plan : FederatedPlan
        Model, columns, sites and method.

    Returns
    -------
    Message
        The first request.

    Raises
    ------
    DataError
        The folder contains another analysis.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.studies.federation import FederatedPlan, federate_init
    >>> plan = FederatedPlan(model="logistic", columns=("x",), sites=("north", "south", "west"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     request = federate_init(folder, plan)
    >>> request.ask
    'describe'
    """
    start_folder(folder, plan)
    found = federate_step(folder)
    assert isinstance(found, WaitingError)
    return history(folder)[0]


def federate_answer(
    folder: str | Path, site: str, data: object, owner: Owner | str | Path
) -> Message:
    """Answer the last request in a folder for a site, and write the answer to the folder.

    Parameters
    ----------
    folder : path
        The shared folder.
    site : str
        Name of the site.
    data : data frame, Arrow table, path to a Parquet or CSV file, or dict
        See `FederatedSite`.
    owner : Owner, or path of an owner's folder
        Contains rules, keys, public keys of the other sites and the ledger; see `Owner.create`.

    Returns
    -------
    Message
        The answer or a refusal, which is written too so that the lead can read the reason.

    Raises
    ------
    DataError
        The request is not one that an honest lead makes, the model cannot use the data, or the rows
        differ from those of the site's earlier answers: nothing is written.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from steropes.studies.federation import FederatedPlan, Owner, federate_answer, federate_init
    >>> plan = FederatedPlan(model="logistic", columns=("x",), sites=("north", "south", "west"))
    >>> rows = pd.DataFrame({"x": [0.0, 1.0] * 20, "y": [0, 0, 1, 1] * 10})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     request = federate_init(f"{folder}/shared", plan)
    ...     owners = {site: Owner.create(f"{folder}/{site}") for site in plan.sites}
    ...     for owner in owners.values():
    ...         owner.peers.update({name: other.keys.public for name, other in owners.items()})
    ...     message = federate_answer(f"{folder}/shared", "north", rows, owners["north"])
    >>> message.kind
    'answer'
    """
    plan = read_plan(folder)
    request, rounds = history(folder)
    own = FederatedSite(site, data, _owner(owner))
    message = own.answer(plan, request, rounds, str(Path(folder).resolve()))
    write_answer(folder, message)
    return message


def federate_withdraw(
    folder: str | Path, site: str, data: object, owner: Owner | str | Path, *, consent: bool = False
) -> Message:
    """Withdraw a site from the analysis in a folder, so that the others can continue without it.

    Parameters
    ----------
    folder : path
        The shared folder.
    site : str
        Name of the site.
    data : data frame, Arrow table, path to a Parquet or CSV file, or dict
        The rows of the site; see `FederatedSite`.
    owner : Owner, or path of an owner's folder
        The owner of the site.
    consent : bool, default False
        Consent of the owner that the site's own sums can be computed from totals with and without
        them. Needed once a total with them is known.

    Returns
    -------
    Message
        The signed withdrawal, which is written to the folder.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from steropes.studies.federation import FederatedPlan, Owner, federate_init
    >>> from steropes.studies.federation import federate_withdraw
    >>> plan = FederatedPlan("logistic", ("x",), ("north", "south", "west", "east"))
    >>> rows = pd.DataFrame({"x": [0.0, 1.0] * 20, "y": [0, 0, 1, 1] * 10})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     request = federate_init(f"{folder}/shared", plan)
    ...     owner = Owner.create(f"{folder}/north")
    ...     message = federate_withdraw(f"{folder}/shared", "north", rows, owner)
    >>> message.kind
    'withdrawal'
    """
    plan = read_plan(folder)
    request, _ = history(folder)
    own = FederatedSite(site, data, _owner(owner))
    message = own.withdraw(plan, request, str(Path(folder).resolve()), consent)
    write_answer(folder, message)
    return message


def _owner(owner: Owner | str | Path) -> Owner:
    """Open an owner's folder, unless it is open already."""
    return owner if isinstance(owner, Owner) else Owner.open(owner)


def federate_step(
    folder: str | Path, without: Sequence[str] = (), peers: Mapping[str, PublicKeys] | None = None
) -> WaitingError | FederatedResult | FederatedProfiles:
    """Take the lead's next step: write a request once all sites have answered the last one.

    Parameters
    ----------
    folder : path
        The shared folder.
    without : sequence of str
        Sites to continue without that have not answered the last request. The round is repeated
        without them if the owners of the others confirm that they are gone and no total is known
        yet. Afterwards a site can only withdraw, with its owner's consent. Name such sites again in
        each later step, because the file that records them has no signature.
    peers : dict of str to PublicKeys, optional
        Public keys of the sites (`read_public_keys`), to check the signatures of all answers. Sites
        check those of earlier rounds in any case, but no one else those of the last one: without
        keys the notes of the result state it.

    Returns
    -------
    WaitingError or FederatedResult or FederatedProfiles
        The round and the sites it waits for, or the result when the analysis is complete.

    Raises
    ------
    DataError
        A site refuses, or a file is not a valid answer to its request.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.studies.federation import FederatedPlan, federate_init, federate_step
    >>> plan = FederatedPlan(model="logistic", columns=("x",), sites=("north", "south", "west"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     request = federate_init(folder, plan)
    ...     waiting = federate_step(folder)
    >>> sorted(waiting.sites)
    ['north', 'south', 'west']
    """
    try:
        found = combined(run_in_folder(folder, without, peers))
        return found if peers is not None else with_note(found, UNSIGNED)
    except WaitingError as waiting:
        return waiting


def federate_finish(
    folder: str | Path,
    output: str | Path | None = None,
    without: Sequence[str] = (),
    peers: Mapping[str, PublicKeys] | None = None,
) -> FederatedResult | FederatedProfiles:
    """Write the result of a folder as JSON.

    Parameters
    ----------
    folder : path
        The shared folder.
    output : path, optional
        The file. Default: ``result.json`` in the folder.
    without : sequence of str
        Sites that have not answered and without which the lead continued, as in `federate_step`.
    peers : dict of str to PublicKeys, optional
        Public keys of the sites, as in `federate_step`.

    Returns
    -------
    FederatedResult or FederatedProfiles
        The result.

    Raises
    ------
    DataError
        Some sites have not answered yet.

    Examples
    --------
    >>> import tempfile
    >>> from steropes import DataError
    >>> from steropes.studies.federation import FederatedPlan, federate_finish, federate_init
    >>> plan = FederatedPlan(model="logistic", columns=("x",), sites=("north", "south", "west"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     request = federate_init(folder, plan)
    ...     try:
    ...         federate_finish(folder)
    ...     except DataError:
    ...         print("sites have not answered")
    sites have not answered
    """
    found = federate_step(folder, without, peers)
    if isinstance(found, WaitingError):
        raise DataError(
            f"{found}: let these sites answer, and take steps until the analysis is complete"
        )
    if output is None:
        write_result(folder, found)
    else:
        found.write(output)
    return found
