"""The plan of EvidenceSynthesisModule: meta-analyses of results of several databases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from steropes.data.diagnostic_limits import DETECTABLE_RATIO, SYSTEMATIC_ERROR
from steropes.errors import DataError
from steropes.studies.strategus_plans.r_json_values import (
    Flag,
    Identifier,
    Integer,
    Items,
    JsonPath,
    MaybeNumber,
    MaybeText,
    Objects,
    RModel,
    RNumber,
    Scalar,
    Text,
    json_path,
    parsed,
)
from steropes.studies.strategus_plans.supported_parts import PartVerdict, runs, skipped

__all__ = [
    "SYNTHESIS",
    "SynthesisAnalysis",
    "SynthesisPlan",
    "SynthesisThresholds",
    "synthesis_plan",
]

SYNTHESIS = "EvidenceSynthesisModule"
Method = Literal["Bayesian", "random", "fixed"]
# Methods by the classes of R.
CLASSES: dict[str, Method] = {
    "BayesianMetaAnalysis": "Bayesian",
    "RandomEffectsMetaAnalysis": "random",
    "FixedEffectsMetaAnalysis": "fixed",
}


class _Source(RModel):
    """The results that are combined."""

    source_method: Annotated[Literal["CohortMethod", "SelfControlledCaseSeries"], Scalar]
    likelihood_approximation: Annotated[
        Literal["normal", "adaptive grid", "grid with gradients"], Scalar
    ] = "adaptive grid"
    database_ids: Items[Any] = ()
    analysis_ids: Items[Identifier] = ()


class _Analysis(RModel):
    """A meta-analysis; the settings of R's Markov chain have no influence on quadrature."""

    evidence_synthesis_analysis_id: Identifier
    evidence_synthesis_description: MaybeText = ""
    evidence_synthesis_source: _Source
    control_type: Text = "outcome"
    alpha: RNumber = 0.05
    prior_sd: Items[RNumber] = (2.0, 0.5)
    robust: Flag = False
    df: RNumber = 4
    seed: Integer = 1
    chain_length: Integer = 1_100_000
    burn_in: Integer = 100_000
    sub_sample_frequency: Integer = 100


class SynthesisThresholds(RModel):
    """Limits of the diagnostics; those of balance over databases are read but not applied."""

    mdrr_threshold: RNumber = DETECTABLE_RATIO
    ease_threshold: RNumber = SYSTEMATIC_ERROR
    i2_threshold: RNumber = 0.4
    tau_threshold: RNumber = 0.6931
    sdm_threshold: MaybeNumber = None
    sdm_alpha: MaybeNumber = None


class _Settings(RModel):
    """The settings of the module; analyses are read one by one."""

    evidence_synthesis_analysis_list: Objects[Any]
    es_diagnostic_thresholds: SynthesisThresholds | None = None


@dataclass(frozen=True)
class SynthesisAnalysis:
    """A meta-analysis.

    Attributes
    ----------
    method : {"Bayesian", "random", "fixed"}
    source : {"CohortMethod", "SelfControlledCaseSeries"}
    normal : bool
        Whether estimates are combined by their standard errors, not by their likelihoods.
    prior_sd : (float, float)
        Standard deviations of the priors of the mean and of the spread of effects.
    databases : tuple of str
        The only databases to combine; empty for all.
    analyses : tuple of int
        The only analyses whose results are combined; empty for all.
    """

    id: int
    description: str
    method: Method
    source: str
    normal: bool
    prior_sd: tuple[float, float]
    databases: tuple[str, ...]
    analyses: tuple[int, ...]


@dataclass(frozen=True)
class SynthesisPlan:
    """Meta-analyses that run, thresholds of diagnostics, and verdicts."""

    analyses: tuple[SynthesisAnalysis, ...]
    thresholds: SynthesisThresholds
    verdicts: tuple[PartVerdict, ...]


def synthesis_plan(settings: object, path: JsonPath) -> SynthesisPlan:
    """Read the settings of the module.

    Raises
    ------
    DataError
        A field is unknown or invalid.
    """
    given = parsed(_Settings, settings, path)
    at: JsonPath = (*path, "evidenceSynthesisAnalysisList")
    found: list[SynthesisAnalysis] = []
    verdicts: list[PartVerdict] = []
    thresholds = given.es_diagnostic_thresholds or SynthesisThresholds()
    for i, values in enumerate(given.evidence_synthesis_analysis_list):
        part = f"analysis at position {i}"
        try:
            made = _analysis(values, (*at, i))
            part = f"analysis {made.id} ({made.description})"
            if any(a.id == made.id for a in found):
                raise DataError(f"{json_path((*at, i))}: analysis {made.id} is defined before")
        except DataError as error:
            verdicts.append(skipped(SYNTHESIS, part, str(error)))
            continue
        differences = []
        if made.method == "Bayesian":
            differences.append("the posterior is computed by quadrature, not by a Markov chain")
        if thresholds.sdm_threshold is not None:
            differences.append("balance over databases is not combined and has no diagnostic")
        verdicts.append(runs(SYNTHESIS, part, differences))
        found.append(made)
    return SynthesisPlan(tuple(found), thresholds, tuple(verdicts))


def _analysis(values: object, path: JsonPath) -> SynthesisAnalysis:
    """Read a meta-analysis; its class is an attribute in R."""
    read = parsed(_Analysis, values, path)
    classes = values.get("attr_class", []) if isinstance(values, Mapping) else []
    listed = classes if isinstance(classes, list) else [classes]
    method = next((CLASSES[c] for c in listed if isinstance(c, str) and c in CLASSES), None)
    if method is None:
        raise DataError(f"{json_path((*path, 'attr_class'))} names no method of meta-analysis")
    if read.alpha != 0.05:
        raise DataError(f"{json_path((*path, 'alpha'))}: intervals have a level of 95 % here")
    if read.control_type != "outcome":
        raise DataError(f"{json_path((*path, 'controlType'))}: controls are outcomes here")
    if read.robust:
        raise DataError(f"{json_path((*path, 'robust'))}: a t distribution has no counterpart")
    if len(read.prior_sd) != 2 or not all(0 < sd < 1e6 for sd in read.prior_sd):
        raise DataError(f"{json_path((*path, 'priorSd'))} must be two positive numbers")
    source = read.evidence_synthesis_source
    return SynthesisAnalysis(
        read.evidence_synthesis_analysis_id,
        read.evidence_synthesis_description or "",
        method,
        source.source_method,
        method == "random" or source.likelihood_approximation == "normal",
        (read.prior_sd[0], read.prior_sd[1]),
        tuple(str(d) for d in source.database_ids),
        source.analysis_ids,
    )
