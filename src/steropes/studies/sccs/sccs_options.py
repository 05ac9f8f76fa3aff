"""Options of ``steropes sccs``, with types and help texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Outcome = Annotated[int, typer.Option(help="Id of the outcome: a condition, or a cohort.")]
OutcomesFrom = Annotated[
    str,
    typer.Option(help="condition_occurrence, condition_era or drug_era, unless it is a cohort."),
]
Descendants = Annotated[bool, typer.Option(help="Include the descendants of concepts.")]
Exposure = Annotated[
    int | None,
    typer.Option(help="Id of the exposure: a drug, or a cohort. Without it, all drugs."),
]
Output = Annotated[Path, typer.Option(help="Folder for report.html and the result tables.")]
RiskStart = Annotated[int, typer.Option(help="First day at risk, relative to an era's start.")]
RiskStartAt = Annotated[
    str, typer.Option(help="Whether risk_start is relative to the era's 'start' or 'end'.")
]
RiskEnd = Annotated[int, typer.Option(help="Last day at risk, relative to an era's end.")]
RiskEndAt = Annotated[
    str, typer.Option(help="Whether risk_end is relative to the era's 'end' or 'start'.")
]
FirstOnly = Annotated[bool, typer.Option(help="Use only the first era.")]
ByConcept = Annotated[
    bool, typer.Option(help="Estimate each concept below the exposure separately.")
]
PreExposure = Annotated[
    int, typer.Option(min=0, help="Length of the pre-exposure window in days; 0 for none.")
]
Probe = Annotated[
    int, typer.Option(min=0, help="Length of the end-of-observation probe in days; 0 for none.")
]
Others = Annotated[bool, typer.Option(help="Add all other drugs as penalised covariates.")]
Indication = Annotated[int | None, typer.Option(help="Condition to adjust for by its eras.")]
Control = Annotated[
    tuple[int, int] | None,
    typer.Option(help="Days of a control interval, such as -180 -1: a risk interval design."),
]
Naive = Annotated[int, typer.Option(min=0, help="Initial days of observation that do not count.")]
FirstOutcome = Annotated[bool, typer.Option(help="Use only a person's first outcome.")]
Years = Annotated[int | None, typer.Option(min=0, help="In completed years.")]
Sex = Annotated[list[int] | None, typer.Option(help="Concept id of a sex; repeatable.")]
Period = Annotated[
    list[str] | None,
    typer.Option(help="Study period, such as 2010-01-01:2019-12-31; repeatable."),
]
Nesting = Annotated[int | None, typer.Option(help="Cohort to which time is restricted.")]
Restrict = Annotated[
    int | None, typer.Option(help="Exposure; restrict time to its first to last recorded day.")
]
Age = Annotated[bool, typer.Option(help="Adjust for age (spline).")]
Season = Annotated[bool, typer.Option(help="Adjust for season (spline).")]
Calendar = Annotated[bool, typer.Option(help="Adjust for calendar time (spline).")]
EventDependent = Annotated[bool, typer.Option(help="Weight time for event-dependent observation.")]
Table = Annotated[
    str | None,
    typer.Option(help="Cohort table (schema.table) with outcome and exposure."),
]
Definitions = Annotated[
    list[str] | None,
    typer.Option(
        help="Cohort definition from ATLAS, as ID=FILE; repeatable. Outcome, exposure or nesting "
        "may refer to its id."
    ),
]
Prior = Annotated[str, typer.Option(help="laplace, normal, or hierarchical (over ATC classes).")]
Variance = Annotated[
    float | None,
    typer.Option(help="Variance of the prior. Default: cross-validation over people."),
]
Bootstrap = Annotated[int, typer.Option(min=0, help="Bootstrap draws of people.")]
Folds = Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")]
Schema = Annotated[str, typer.Option(help="Schema of the CDM tables.")]
TimeZone = Annotated[
    str, typer.Option(help="Time zone that determines the dates of stored instants.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of folds and draws.")]
MinCell = Annotated[
    int | None,
    typer.Option(min=0, help="Smallest count to publish, if larger than the rules' one."),
]
Unblind = Annotated[
    bool, typer.Option("--unblind", help="Also show estimates that fail a diagnostic.")
]
Memory = Annotated[
    str | None,
    typer.Option(help="Memory limit of the database, such as 2GB; the rest goes to disk."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
