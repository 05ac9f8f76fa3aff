"""Settings of common case series: one drug, one among many, all drugs, a risk interval."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from steropes.designs.settings.validated_types import LONGEST, Days, Offset, Whole, YesNo
from steropes.errors import DataError
from steropes.studies.sccs.specification.case_series_settings import (
    Anchor,
    CaseRules,
    CaseSeriesSettings,
    ExposureWindow,
    control_window,
)
from steropes.studies.settings.concept_id_type import ConceptId, ConceptIdNumber
from steropes.studies.settings.setting_fields import SettingField, setting_fields

__all__ = [
    "ALL_DRUGS",
    "EXPOSURE",
    "PRE_EXPOSURE",
    "analysis_fields",
    "case_series_fields",
    "case_series_settings",
]

EXPOSURE, PRE_EXPOSURE, ALL_DRUGS = "exposure", "pre-exposure", "drug"
INDICATION, OTHERS = "indication", "other drug"


def case_series_settings(
    outcome: ConceptId,
    exposure: ConceptId | None = None,
    *,
    risk_start: Offset = 0,
    risk_end: Offset = 0,
    risk_start_at: Anchor = "start",
    risk_end_at: Anchor = "end",
    first_only: YesNo = False,
    by_concept: YesNo = False,
    pre_exposure_days: Days = 30,
    others: YesNo = False,
    indication: ConceptId | None = None,
    control: tuple[Offset, Offset] | None = None,
    **more: Any,
) -> CaseSeriesSettings:
    """Define a case series of one exposure, or of all drugs at once.

    Parameters
    ----------
    outcome : int
        Id of the outcome: a condition, or a cohort.
    exposure : int, optional
        Id of the exposure of interest: a drug, or a cohort. Without it all drugs are in the model,
        with one penalised column each (Suchard and others 2013).
    risk_start : int, default 0
        First day at risk, relative to an era's start.
    risk_end : int, default 0
        Last day at risk, relative to an era's end.
    risk_start_at : {"start", "end"}, default "start"
        Whether ``risk_start`` is relative to the era's first or last day.
    risk_end_at : {"start", "end"}, default "end"
        Whether ``risk_end`` is relative to the era's first or last day.
    first_only : bool, default False
        Only the first era counts (except of ``others``).
    by_concept : bool, default False
        Treat each concept below the exposure (such as the drugs of a class) as of interest.
    pre_exposure_days : int, default 30
        Length of the window before exposure; 0 for none.
    others : bool, default False
        Include all other drugs as penalised columns.
    indication : int, optional
        A condition whose eras are a further column.
    control : (int, int), optional
        First and last day of a control interval, relative to the first day of an era: a
        self-controlled risk interval design.
    **more
        Fields of `CaseRules` and `CaseSeriesSettings`.

    Returns
    -------
    CaseSeriesSettings
        The settings.

    Raises
    ------
    DataError
        A setting is unknown or invalid, or requires an exposure.

    References
    ----------
    Whitaker, Farrington, Spiessens and Musonda (2006), Statistics in Medicine 25:1768–1797.
    Suchard, Simpson, Zorych, Ryan and Madigan (2013), ACM TOMACS 23:10.

    Examples
    --------
    >>> from steropes.studies import case_series_settings
    >>> [w.label for w in case_series_settings(192671, 1118084).windows]
    ['exposure', 'pre-exposure']
    """
    Whole(0, LONGEST).require("pre_exposure_days", pre_exposure_days)
    for name, concept in (("exposure", exposure), ("indication", indication)):
        if concept is not None:
            ConceptIdNumber(1).require(name, concept)
    if exposure is None:
        for name, value in (
            ("indication", indication), ("control", control), ("by_concept", by_concept or None),
        ):  # fmt: skip
            if value is not None:
                raise DataError(f"{name} requires an exposure of interest; name one")
    risk = {"start": risk_start, "end": risk_end, "start_at": risk_start_at,
            "end_at": risk_end_at}  # fmt: skip
    windows: list[ExposureWindow] = []
    if exposure is not None:
        before = 0 if control is not None else pre_exposure_days
        windows += _of_interest(exposure, risk, by_concept, first_only, before)
    if indication is not None:
        windows.append(ExposureWindow(INDICATION, (indication,), kind="condition"))
    if others or exposure is None:
        windows.append(_drug_by_drug(exposure, risk, first_only and exposure is None))
    rules = {k: more.pop(k) for k in list(more) if k in CaseRules.__dataclass_fields__}
    if "seed" in rules:
        more["seed"] = rules["seed"]
    unknown = [k for k in more if k not in CaseSeriesSettings.__dataclass_fields__]
    if unknown:
        raise DataError(f"unknown setting {unknown[0]!r}")
    interval = None
    if control is not None:
        assert exposure is not None
        interval = control_window("control interval", (exposure,), *control, first_only=first_only)
    return CaseSeriesSettings(CaseRules(outcome, **rules), tuple(windows), control=interval, **more)


def _of_interest(
    exposure: int, risk: dict[str, Any], by_concept: bool, first_only: bool, before: int
) -> Iterator[ExposureWindow]:
    """Yield the window of the exposure and its pre-exposure window, if any."""
    yield ExposureWindow(
        EXPOSURE,
        (exposure,),
        by_concept=by_concept,
        first_only=first_only,
        of_interest=True,
        profile=True,
        pre_exposure=False,
        **risk,
    )
    if before:
        yield ExposureWindow(
            PRE_EXPOSURE,
            (exposure,),
            start=-before,
            end=-1,
            end_at="start",
            by_concept=by_concept,
            first_only=first_only,
        )


def _drug_by_drug(exposure: int | None, risk: dict[str, Any], first_only: bool) -> ExposureWindow:
    """Define a penalised column for each drug, or for each other drug."""
    return ExposureWindow(
        OTHERS if exposure else ALL_DRUGS,
        exclude=(exposure,) if exposure else (),
        by_concept=True,
        first_only=first_only,
        penalized=True,
        of_interest=exposure is None,
        pre_exposure=False,
        **risk,
    )


def case_series_fields() -> dict[str, SettingField]:
    """List all settings of a case series of one exposure, by the names of their arguments.

    They are the arguments of `case_series_settings`, which include the fields of `CaseRules` and
    `CaseSeriesSettings` that it does not set itself.
    """
    found = setting_fields(case_series_settings)
    for declared in (CaseRules, CaseSeriesSettings):
        found = {**found, **{k: v for k, v in setting_fields(declared).items() if k not in found}}
    seeds = "Seed of the sample of cases, the folds and the bootstrap."  # One argument sets both.
    found["seed"] = replace(found["seed"], description=seeds)
    return {k: v for k, v in found.items() if k not in ("cases", "windows")}


def analysis_fields() -> dict[str, SettingField]:
    """List the settings of an analysis in a grid, which leaves out those of questions and grids."""
    others = ("outcome", "exposure", "thresholds", "min_cell", "schema", "time_zone", "unblind",
              "observed_until")  # fmt: skip
    return {name: f for name, f in case_series_fields().items() if name not in others}
