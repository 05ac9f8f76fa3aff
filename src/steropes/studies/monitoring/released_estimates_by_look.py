"""Released estimates at each look at accruing data, and their sequential tests."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from steropes.designs.evidence.profile_interpolation import Profile
from steropes.designs.surveillance.bayesian_monitoring import check_threshold, monitor_posteriors
from steropes.designs.surveillance.group_sequential_bounds import (
    check_alpha,
    check_count,
    check_ratio,
)
from steropes.designs.surveillance.sequential_tests_of_estimates import (
    monitor_estimates,
    signed_root,
)
from steropes.errors import DataError
from steropes.studies.archives.archive_synthesis import with_kinds
from steropes.studies.archives.names_of_archive_ids import ArchiveNames
from steropes.studies.diagnostics.archive_blinding import HIDDEN, flagged_results
from steropes.studies.disclosure.disclosure_rules import (
    DisclosureRules,
    rules_of_text,
    site_rules,
)
from steropes.studies.disclosure.release_folder import RELEASE
from steropes.studies.monitoring.few_outcomes_between_looks import (
    counts_of_comparison,
    counts_of_series,
    without_few_outcomes,
)
from steropes.studies.monitoring.monitoring_record import MonitoringRecord
from steropes.studies.settings.frozen_protocol import values_hash
from steropes.studies.strategus.results_model import results_model
from steropes.studies.viewer.result_sources import ARCHIVE, ResultSource, read_sources

__all__ = ["OWN_TABLE", "estimates_of_source", "monitor_releases", "monitoring_plan"]

COMPARATIVE = ["target_comparator_id", "outcome_id", "analysis_id"]
SERIES = ["exposures_outcome_set_id", "covariate_id", "analysis_id"]
RESULTS = {"cm_result", "sccs_result"}
# Columns that name an estimate in the table of all looks.
NAMED = ["comparison", "outcome", "analysis"]
KEY = ["design", "first_id", "second_id", "analysis_id"]
# The table that the command writes, perhaps beside the looks.
OWN_TABLE = "monitoring.csv"
# Decimals of estimates in the digest of a look: releases are text.
DECIMALS = 9


def monitor_releases(
    looks: str | Path | Sequence[str | Path],
    *,
    planned: int | None = None,
    alpha: float | None = None,
    power: float | None = None,
    posterior: float | None = None,
    robust: bool = False,
    unblind: bool = False,
    record: str | Path | None = None,
    by: str | None = None,
    disclosure: str | DisclosureRules | None = None,
) -> pd.DataFrame:
    """Test the estimates of a study at each look at accruing data.

    Every estimate of interest is compared with a bound that keeps the probability of a signal
    without an effect, at any of the planned looks, at ``alpha``. The bound includes the systematic
    error of the negative controls of its comparison and analysis at that look. With ``posterior``
    a signal is a posterior probability instead, corrected for this error.

    Parameters
    ----------
    looks : path, or sequence of path
        Released results of one study and one database in the order of looks: archives
        (``results.zip``) or output folders of grids, case series or Strategus. Or one folder with
        nothing but them, in the order of their names (``look2`` before ``look10``).
    planned : int, optional
        Number of planned looks, which bounds need.
    alpha : float, optional
        Probability of a signal at any look without an effect (one-sided), for each estimate.
        Default: 0.05.
    power : float, optional
        The share (k / planned) to this power of ``alpha`` is spent up to look k. Default: 1.
    posterior : float, optional
        Posterior probability of an effect above 1 that is a signal, instead of bounds.
    robust : bool, default False
        Let errors of controls have a t distribution, for posterior probabilities.
    unblind : bool, default False
        Also test estimates that fail a diagnostic at their look.
    record : path, optional
        A file with the record of all looks, made at the first look. Looks that are recorded must
        be given again unchanged, with the same plan.
    by : str, optional
        Who looked, for the record. Default: the name of the user.
    disclosure : str or DisclosureRules, optional
        Rules of the data's owner: "ohdsi", "opensafely", "none", or one with a smallest count
        ("ohdsi:10"). Default: "ohdsi" or, if they are stricter, those of the releases.

    Returns
    -------
    DataFrame
        A row per estimate and look: ``comparison``, ``outcome``, ``analysis``, ids, and the columns
        of `monitor_estimates` or `monitor_posteriors`.

    Raises
    ------
    DataError
        A path has no results of exactly one database, or the record has other looks or another
        plan.

    Notes
    -----
    An estimate is not tested at a look whose outcomes differ by few (but some) from those of an
    earlier look that is shown, because their number would follow from both; its error goes to the
    next look. Negative controls keep their last estimate there.

    See Also
    --------
    monitor_estimates, monitor_posteriors : The tests, from a table of estimates.

    References
    ----------
    Schuemie and others (2023), Statistics in Medicine 42:619–631. Bu and others (2024), Statistics
    in Medicine 43:395–418.
    """
    paths = _looks_in([looks] if isinstance(looks, str | Path) else looks)
    plan = monitoring_plan(len(paths), planned, alpha, power, posterior, robust)
    sources = [_only_source(path) for path in paths]
    found = [estimates_of_source(source, unblind) for source in sources]
    parts = without_few_outcomes(found, KEY, _rules(disclosure, sources))
    if record is not None:
        digests = [_digest(part) for part in parts]
        MonitoringRecord.of(record, {**plan, "unblind": unblind}).with_looks(digests, by).write(
            record
        )
    rows = pd.concat(
        [part.assign(look=number) for number, part in enumerate(parts, 1)], ignore_index=True
    )
    named = rows.groupby(KEY, sort=False)[NAMED].last()
    groups = {"by": KEY, "controls_by": ["error_group"]}
    if posterior is None:
        tests = monitor_estimates(
            rows, looks=plan["planned"], alpha=plan["alpha"], power=plan["power"], **groups
        )
    else:
        tests = monitor_posteriors(rows, threshold=posterior, robust=robust, **groups)
    return named.merge(tests, left_index=True, right_on=KEY)[[*NAMED, *tests.columns]]


def _rules(asked: str | DisclosureRules | None, sources: Sequence[ResultSource]) -> DisclosureRules:
    """Return the rules that are asked for or, by default, the strictest of the releases."""
    rules = site_rules(asked)
    if asked is None:
        for released in filter(None, (rules_of_text(source.rules) for source in sources)):
            rules = rules.stricter(released)
    return rules


def _only_source(path: Path) -> ResultSource:
    """Read the estimates of a look, and refuse those of several studies or databases."""
    sources = [s for s in read_sources([path]) if RESULTS & {*s.tables}]
    databases = {
        name for s in sources for t in RESULTS & {*s.tables} for name in s.tables[t]["database_id"]
    }
    if len(sources) != 1 or len(databases) > 1:
        raise DataError(
            f"{path} must have the estimates of one study on one database; it has "
            f"{len(sources)} releases and {len(databases)} databases."
        )
    return sources[0]


def _looks_in(paths: Sequence[str | Path]) -> list[Path]:
    """Return the looks: the paths, or those in a folder that is no release itself."""
    given = [Path(path) for path in paths]
    if len(given) != 1 or not given[0].is_dir():
        return given
    inside = [p for p in given[0].iterdir() if p.is_dir() or p.suffix == ".zip"]
    modules = {*results_model()["module"]} & {p.name.split("_")[0] for p in inside}
    released = {RELEASE, ARCHIVE} & {p.name for p in inside}
    if modules or released or any(given[0].glob("*.csv")):
        return given
    looks = [p for p in inside if p.name[0] not in "._" and not (p / OWN_TABLE).exists()]
    return sorted(looks, key=_natural) or given


def _natural(path: Path) -> list[tuple[int, str]]:
    """Return a key that sorts numbers in names as numbers."""
    parts = re.split(r"(\d+)", path.name.lower())
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def monitoring_plan(
    looks: int,
    planned: int | None = None,
    alpha: float | None = None,
    power: float | None = None,
    posterior: float | None = None,
    robust: bool = False,
) -> dict[str, Any]:
    """Return the plan of the looks, and refuse options that have no use in it."""
    if posterior is not None:
        given = {"planned": planned, "alpha": alpha, "power": power}
        if unused := [name for name, value in given.items() if value is not None]:
            raise DataError(
                f"{unused[0]} belongs to bounds; a posterior probability has the same threshold at "
                "all looks. Leave it out, or leave posterior out."
            )
        check_threshold(posterior)
        return {"posterior": posterior, "robust": robust}
    if robust:
        raise DataError("robust belongs to posterior probabilities; give posterior, such as 0.95.")
    if planned is None:
        raise DataError("planned, the number of planned looks, is missing; bounds need it.")
    if looks > planned:
        raise DataError(f"{looks} looks are given, but {planned} are planned.")
    plan = {
        "planned": planned,
        "alpha": 0.05 if alpha is None else alpha,
        "power": 1.0 if power is None else power,
    }
    check_count("planned", planned)
    check_alpha(plan["alpha"])
    check_ratio("power", plan["power"])
    return plan


def estimates_of_source(source: ResultSource, unblind: bool) -> pd.DataFrame:
    """Return the estimates of one release.

    Parameters
    ----------
    unblind : bool
        Keep the numbers of estimates that fail a diagnostic.

    Returns
    -------
    DataFrame
        ``design`` ("cm" or "sccs"), ``first_id``, ``second_id``, ``analysis_id``, names,
        ``log_rr``, ``se``, ``z``, ``profile``, ``counts`` (of outcomes, None if unknown),
        ``control`` and ``note``.
    """
    tables = source.tables
    parts = []
    if "cm_result" in tables:
        parts.append(_comparative(tables, unblind))
    if "sccs_result" in tables:
        parts.append(_series(tables, unblind))
    return pd.concat(parts, ignore_index=True)


def _comparative(tables: Mapping[str, pd.DataFrame], unblind: bool) -> pd.DataFrame:
    """Return the estimates of a comparative study."""
    results = with_kinds(dict(tables))
    names = ArchiveNames([dict(tables)])
    profiles = _profiles(tables.get("cm_likelihood_profile"), COMPARATIVE)
    rows = []
    for line in results.to_dict("records"):
        key = tuple(int(line[c]) for c in COMPARATIVE)
        named = names.of(*key)
        # A weighted likelihood does not have the distribution of a likelihood ratio.
        profile = None if line["weighted"] else profiles.get(key)
        rows.append(
            {
                "design": "cm", "first_id": key[0], "second_id": key[1], "analysis_id": key[2],
                "comparison": f"{named['target']} against {named['comparator']}",
                "outcome": named["outcome"], "analysis": named["analysis"],
                "error_group": f"cm {key[0]} {key[2]}",
                "counts": counts_of_comparison(line),
                **_numbers(line, profile, unblind),
            }
        )  # fmt: skip
    return _with_controls(rows, tables, "cm")


def _series(tables: Mapping[str, pd.DataFrame], unblind: bool) -> pd.DataFrame:
    """Return the estimates of case series."""
    names = ArchiveNames([dict(tables)])
    windows, sets, analyses = (
        tables.get(f"sccs_{name}", pd.DataFrame())
        for name in ("covariate", "exposures_outcome_set", "analysis")
    )
    window_of = _names_of(windows, [SERIES[0], "covariate_id", "analysis_id"], "covariate_name")
    outcome_of = _names_of(sets, SERIES[:1], "outcome_id")
    analysis_of = _names_of(analyses, ["analysis_id"], "description")
    profiles = _profiles(tables.get("sccs_likelihood_profile"), SERIES)
    rows = []
    for line in flagged_results(tables, "sccs").to_dict("records"):
        key = tuple(int(line[c]) for c in SERIES)
        outcome = outcome_of.get(key[:1])
        rows.append(
            {
                "design": "sccs", "first_id": key[0], "second_id": key[1], "analysis_id": key[2],
                "comparison": str(window_of.get(key, f"covariate {key[1]}")),
                "outcome": f"set {key[0]}" if outcome is None else names.cohort(int(outcome)),
                "analysis": str(analysis_of.get(key[2:], f"analysis {key[2]}")),
                "error_group": f"sccs {key[1]} {key[2]}",
                "counts": counts_of_series(line),
                **_numbers(line, profiles.get(key), unblind),
            }
        )  # fmt: skip
    return _with_controls(rows, tables, "sccs")


def _names_of(table: pd.DataFrame, key: list[str], name: str) -> dict[tuple[int, ...], Any]:
    """Return the values of a column by ids, from a table that a release may lack."""
    if not {*key, name} <= {*table.columns}:
        return {}
    own = table[[*key, name]].dropna()
    return {
        tuple(int(i) for i in ids): value for *ids, value in own.itertuples(index=False, name=None)
    }


def _profiles(table: pd.DataFrame | None, key: list[str]) -> dict[tuple[int, ...], Profile]:
    """Return the profiles of a table of results, with at least two points."""
    if table is None or not len(table):
        return {}
    found = {}
    for ids, own in table.dropna(subset=["log_rr", "log_likelihood"]).groupby(key):
        points = own.drop_duplicates("log_rr")
        if len(points) > 1:
            numbers = tuple(int(i) for i in ids)
            found[numbers] = Profile(points["log_rr"], points["log_likelihood"])
    return found


def _numbers(
    line: Mapping[str, object], profile: Profile | None, unblind: bool
) -> dict[str, object]:
    """Return the estimate of a row, without it if the estimate is hidden or unknown."""
    nothing = {"log_rr": math.nan, "se": math.nan, "z": math.nan, "profile": None}
    if line[HIDDEN] and not unblind:
        return {**nothing, "note": "fails a diagnostic"}
    log_rr, se = (float(str(line[c])) for c in ("log_rr", "se_log_rr"))
    if not (math.isfinite(log_rr) and math.isfinite(se) and se > 0):
        return {**nothing, "note": "no estimate"}
    z = log_rr / se
    if profile is not None:
        try:
            z = signed_root(profile)
        except DataError:
            # Extrapolation would make up a signal, or hide one.
            return {**nothing, "note": "its likelihood profile ends before the maximum or before 0"}
    return {"log_rr": log_rr, "se": se, "z": z, "profile": profile, "note": ""}


def _with_controls(
    rows: list[dict[str, object]], tables: Mapping[str, pd.DataFrame], design: str
) -> pd.DataFrame:
    """Mark negative controls, and leave out positive ones."""
    found = pd.DataFrame(rows)
    name, key = (
        ("cm_target_comparator_outcome", COMPARATIVE[:2])
        if design == "cm"
        else ("sccs_exposure", SERIES[:1])
    )
    truth = tables.get(name)
    if truth is None or not len(found):
        return found.assign(control=False)
    truth = truth.dropna(subset=["true_effect_size"])
    if "outcome_of_interest" in truth:
        truth = truth[truth["outcome_of_interest"].ne(1)]
    own = pd.MultiIndex.from_frame(found[["first_id", "second_id"][: len(key)]])
    known = {
        effect: own.isin(pd.MultiIndex.from_frame(truth.loc[chosen, key]))
        for effect, chosen in (
            ("none", truth["true_effect_size"].eq(1)),
            ("some", truth["true_effect_size"].ne(1)),
        )
    }
    return found.assign(control=known["none"])[~known["some"]]


def _digest(estimates: pd.DataFrame) -> str:
    """Return a hash of the estimates of a look, whatever their order."""
    table = estimates[[*KEY, "log_rr", "se", "z", "control", "note"]].sort_values(KEY)
    numbers = table[["log_rr", "se", "z"]].round(DECIMALS)
    plain = table.assign(**numbers).astype(str)
    return values_hash(plain.to_numpy().tolist())
