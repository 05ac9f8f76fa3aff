"""The options of ``steropes sccs``: their types, and what its help says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Outcome = Annotated[int, typer.Option(help="Id of the outcome: a condition, or a cohort.")]
OutcomesFrom = Annotated[
    str,
    typer.Option(help="condition_occurrence, condition_era or drug_era, unless it is a cohort."),
]
Descendants = Annotated[bool, typer.Option(help="Concepts stand for their descendants too.")]
Exposure = Annotated[
    int | None,
    typer.Option(help="Id of the exposure: a drug, or a cohort. Without it, all drugs."),
]
Output = Annotated[Path, typer.Option(help="Folder for report.html and the result tables.")]
RiskStart = Annotated[int, typer.Option(help="First day at risk, from an era's start.")]
RiskStartAt = Annotated[
    str, typer.Option(help="Whether risk_start counts from the era's 'start' or 'end'.")
]
RiskEnd = Annotated[int, typer.Option(help="Last day at risk, from an era's end.")]
RiskEndAt = Annotated[
    str, typer.Option(help="Whether risk_end counts from the era's 'end' or 'start'.")
]
FirstOnly = Annotated[bool, typer.Option(help="Only the first era counts.")]
ByConcept = Annotated[
    bool, typer.Option(help="Each concept below the exposure is of interest by itself.")
]
PreExposure = Annotated[
    int, typer.Option(min=0, help="Days of the window before exposure; 0 for none.")
]
Probe = Annotated[
    int, typer.Option(min=0, help="Days of the probe at the end of observation; 0 for none.")
]
Others = Annotated[bool, typer.Option(help="All other drugs too, under the prior.")]
Indication = Annotated[int | None, typer.Option(help="A condition whose eras are controlled for.")]
Control = Annotated[
    tuple[int, int] | None,
    typer.Option(help="Days of a control interval, such as -180 -1: a risk interval design."),
]
Naive = Annotated[
    int, typer.Option(min=0, help="Days at the beginning of observation that do not count.")
]
FirstOutcome = Annotated[bool, typer.Option(help="Only a person's first outcome counts.")]
Years = Annotated[int | None, typer.Option(min=0, help="In completed years.")]
Sex = Annotated[list[int] | None, typer.Option(help="Concept id of a sex; repeatable.")]
Period = Annotated[
    list[str] | None,
    typer.Option(help="Study period, such as 2010-01-01:2019-12-31; repeatable."),
]
Nesting = Annotated[int | None, typer.Option(help="Cohort within whose spells time counts.")]
Restrict = Annotated[
    int | None, typer.Option(help="Exposure; only days on which it was seen count.")
]
Age = Annotated[bool, typer.Option(help="Adjust for age (spline).")]
Season = Annotated[bool, typer.Option(help="Adjust for season (spline).")]
Calendar = Annotated[bool, typer.Option(help="Adjust for calendar time (spline).")]
EventDependent = Annotated[
    bool, typer.Option(help="Weights for observation that the event may end.")
]
Table = Annotated[
    str | None,
    typer.Option(help="Cohort table (schema.table) that outcome and exposure are ids of."),
]
Definitions = Annotated[
    list[str] | None,
    typer.Option(
        help="A cohort that ATLAS exported, as ID=FILE; repeatable. Outcome, exposure or nesting "
        "may be its id."
    ),
]
Prior = Annotated[str, typer.Option(help="laplace, normal, or hierarchical (over ATC classes).")]
Variance = Annotated[
    float | None, typer.Option(help="Of the prior. Without it, by cross-validation over people.")
]
Bootstrap = Annotated[
    int, typer.Option(min=0, help="Draws of people, for the share that each drug is in.")
]
Folds = Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")]
Schema = Annotated[str, typer.Option(help="Schema of the CDM tables.")]
TimeZone = Annotated[
    str, typer.Option(help="Time zone whose dates count where the database stores instants.")
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the folds.")]
MinCell = Annotated[
    int | None,
    typer.Option(min=0, help="A larger smallest count than that of the rules of disclosure."),
]
Unblind = Annotated[
    bool, typer.Option("--unblind", help="Show estimates that fail a diagnostic too.")
]
Memory = Annotated[
    str | None,
    typer.Option(help="Most memory of the database, such as 2GB; more goes to disk."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
