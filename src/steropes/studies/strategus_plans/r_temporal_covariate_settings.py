"""FeatureExtraction's temporal covariate settings, and their translation to window rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steropes.errors import DataError
from steropes.studies.covariates.covariate_analysis_catalogue import WINDOWED
from steropes.studies.covariates.window_summaries import COHORTS, WindowRules
from steropes.studies.strategus_plans.r_covariate_settings import (
    CovariateSettings,
    read_covariate_settings,
)
from steropes.studies.strategus_plans.r_json_values import (
    Flag,
    Integer,
    Items,
    JsonPath,
    RDays,
    RModel,
    Text,
    json_path,
    parsed,
)

__all__ = ["DEFAULT_WINDOWS", "window_rules"]

# The windows that CohortDiagnostics has by default, whose ids are their places.
DEFAULT_WINDOWS = (
    (-9999, 0), (-365, 0), (-180, 0), (-30, 0), (-365, -31), (-30, -1), (0, 0), (1, 30), (31, 365),
    (-9999, 9999),
)  # fmt: skip
NUMBERS = {analysis.name: number for number, analysis in WINDOWED.items()}
COHORT_FUNCTION = "getDbCohortBasedCovariatesData"
Window = tuple[int, int]
UNAVAILABLE = ("CareSiteId", "Hfrs", "ConditionOccurrencePrimaryInpatient")


class _OfCohorts(RModel):
    """FeatureExtraction's covariates of cohorts; the schema and table are those of the run."""

    analysis_id: Integer = COHORTS
    covariate_cohorts: Any = None
    covariate_cohort_database_schema: Any = None
    covariate_cohort_table: Any = None
    value_type: Text = "binary"
    temporal: Flag = False
    temporal_sequence: Flag = False
    temporal_start_days: Items[RDays] = ()
    temporal_end_days: Items[RDays] = ()
    included_covariate_ids: Any = None
    warn_on_analysis_id_overlap: Any = None


class _Windows(CovariateSettings):
    """Settings of covariates of several windows."""

    temporal: Flag = True
    temporal_start_days: Items[RDays] = ()
    temporal_end_days: Items[RDays] = ()


def window_rules(
    settings: object, path: JsonPath, least_mean: float, cohorts: bool
) -> tuple[WindowRules, list[str]]:
    """Translate temporal covariate settings.

    Parameters
    ----------
    settings : mapping or list
        Settings as ``createTemporalCovariateSettings`` writes them; in a list there may also be one
        of ``createCohortBasedTemporalCovariateSettings`` with the same windows.
    least_mean : float
        The smallest mean of a 0/1 covariate that is reported.
    cohorts : bool
        Whether membership in cohorts is a covariate too.

    Returns
    -------
    WindowRules
        The rules.
    list of str
        Differences from R, such as covariates that are left out.

    Raises
    ------
    DataError
        A setting is unknown, or has no counterpart.
    """
    of_cohorts = None
    if isinstance(settings, list):
        settings, path, of_cohorts = _without_cohorts(settings, path)
    flags, rest = read_covariate_settings(settings, path, _Windows, {*NUMBERS, *UNAVAILABLE})
    if rest.temporal_sequence or not rest.temporal:
        name = "temporalSequence" if rest.temporal_sequence else "temporal"
        raise DataError(
            f"{json_path((*path, name))}: only windows of given days have a counterpart"
        )
    first, last = rest.temporal_start_days, rest.temporal_end_days
    if len(first) != len(last):
        raise DataError(
            f"{json_path((*path, 'temporalEndDays'))} must have a day for each of temporalStartDays"
        )
    windows = tuple(zip(first, last, strict=True)) or DEFAULT_WINDOWS
    for begin, end in windows:
        if begin > end:
            raise DataError(
                f"{json_path((*path, 'temporalStartDays'))}: a window starts on day {begin}, after "
                f"its end on day {end}"
            )
    said = [f"{name} is not computed" for name in UNAVAILABLE if flags.get(name)]
    if of_cohorts is not None:
        said.append(_of_same_windows(*of_cohorts, windows))
    numbers = tuple(sorted(NUMBERS[name] for name, on in flags.items() if on and name in NUMBERS))
    rules = WindowRules(
        numbers, windows, rest.selection, rest.included_covariate_ids, least_mean,
        cohorts or of_cohorts is not None,
    )  # fmt: skip
    return rules, said


def _without_cohorts(
    listed: list[object], path: JsonPath
) -> tuple[object, JsonPath, tuple[_OfCohorts, JsonPath] | None]:
    """Return the one setting of several windows that is not of cohorts, and that of cohorts."""
    others: list[tuple[object, JsonPath]] = []
    found = []
    for i, one in enumerate(listed):
        place: JsonPath = (*path, i)
        if isinstance(one, Mapping) and one.get("attr_fun") == COHORT_FUNCTION:
            given = {k: v for k, v in one.items() if k[:5] != "attr_"}
            found.append((parsed(_OfCohorts, given, place), place))
        else:
            others.append((one, place))
    if len(others) != 1 or len(found) > 1:
        raise DataError(
            f"{json_path(path)}: several covariate settings at once have no counterpart here, "
            "other than one of FeatureExtraction and one of cohorts"
        )
    return (*others[0], found[0] if found else None)


def _of_same_windows(read: _OfCohorts, path: JsonPath, windows: tuple[Window, ...]) -> str:
    """Require that covariates of cohorts can be membership, and return the difference from R."""
    own = tuple(zip(read.temporal_start_days, read.temporal_end_days, strict=False))
    if own != windows or not read.temporal or read.temporal_sequence:
        raise DataError(
            f"{json_path((*path, 'temporalStartDays'))}: covariates of cohorts must have the "
            "windows of the other covariates"
        )
    if read.included_covariate_ids:
        raise DataError(f"{json_path((*path, 'includedCovariateIds'))} has no counterpart")
    if read.value_type != "binary":
        raise DataError(f"{json_path((*path, 'valueType'))} must be 'binary'")
    return (
        f"covariates of cohorts are membership in any examined cohort, with the analysis {COHORTS}"
    )
