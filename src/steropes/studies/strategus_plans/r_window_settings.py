"""FeatureExtraction's temporal covariate settings, and their translation to window rules."""

from __future__ import annotations

from steropes.errors import DataError
from steropes.studies.covariates.covariate_analysis_catalogue import WINDOWED
from steropes.studies.covariates.window_summaries import WindowRules
from steropes.studies.strategus_plans.r_covariate_settings import (
    CovariateSettings,
    read_covariate_settings,
)
from steropes.studies.strategus_plans.r_json_values import Flag, Items, JsonPath, RDays, json_path

__all__ = ["DEFAULT_WINDOWS", "window_rules"]

# The windows that CohortDiagnostics has by default, whose ids are their places.
DEFAULT_WINDOWS = (
    (-9999, 0), (-365, 0), (-180, 0), (-30, 0), (-365, -31), (-30, -1), (0, 0), (1, 30), (31, 365),
    (-9999, 9999),
)  # fmt: skip
NUMBERS = {analysis.name: number for number, analysis in WINDOWED.items()}
UNAVAILABLE = ("CareSiteId", "Hfrs", "ConditionOccurrencePrimaryInpatient")


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
    settings : mapping
        Settings as ``createTemporalCovariateSettings`` writes them; a list of one is allowed.
    least_mean : float
        The smallest mean of a 0/1 covariate that is reported.
    cohorts : bool
        Whether membership in cohorts is a covariate too.

    Returns
    -------
    WindowRules
        The rules.
    list of str
        Covariates that are left out.

    Raises
    ------
    DataError
        A setting is unknown, or has no counterpart.
    """
    if isinstance(settings, list):
        if len(settings) != 1:
            raise DataError(
                f"{json_path(path)}: several covariate settings at once have no counterpart here"
            )
        settings, path = settings[0], (*path, 0)
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
    gone = [name for name in UNAVAILABLE if flags.get(name)]
    numbers = tuple(sorted(NUMBERS[name] for name, on in flags.items() if on and name in NUMBERS))
    rules = WindowRules(
        numbers, windows, rest.selection, rest.included_covariate_ids, least_mean, cohorts
    )
    return rules, [f"{name} is not computed" for name in gone]
