"""Tables of people, propensity scores and balance for the page of one question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steropes.studies.disclosure.study import Published
from steropes.studies.report.formatting import count, decimals, percent, title_case
from steropes.studies.report.page_parts import Table, number_table

if TYPE_CHECKING:
    from steropes.studies.comparative.one_question import ComparativeStudy

__all__ = ["ScoreModel", "attrition_table", "balance_table", "domain_table", "score_model"]

TOP_ROWS = 20  # The largest number of covariates in a table.


@dataclass(frozen=True)
class ScoreModel:
    """Numbers of the propensity model and its strongest covariates."""

    covariates: str
    nonzero: int
    auc: str
    variance: str
    strongest: Table | None


def attrition_table(study: ComparativeStudy, public: Published) -> Table | None:
    """Tabulate the people that each rule leaves and drops, in both arms."""
    rows = []
    for line in public.attrition:
        row = [title_case(line["rule"])]
        for arm in ("target", "comparator"):
            dropped = line[f"{arm}_dropped"]
            gone = count(dropped) if dropped != 0 else ""
            sign = "−" if isinstance(dropped, int) and dropped else ""
            row += [count(line[arm]), sign + gone]
        rows.append(row)
    target, comparator = (title_case(study.names[arm]) for arm in ("target", "comparator"))
    return number_table(("Rule", target, "dropped", comparator, "dropped"), rows)


def score_model(study: ComparativeStudy, public: Published) -> ScoreModel | None:
    """Summarise the propensity model; None if there is none."""
    fit = study.propensity
    if fit is None or study.covariates is None:
        return None
    strongest = public.scores["coefficients"][1 : TOP_ROWS // 2 + 1]
    rows = [(str(line["name"]), decimals(line["coef"])) for line in strongest]
    return ScoreModel(
        covariates=count(len(study.covariates.columns)),
        nonzero=len(fit.coefficients) - 1,
        auc=decimals(public.scores["auc"], 3),
        variance=f"{public.scores['variance']:.3g}",
        strongest=number_table(
            ("Strongest covariates", "Log odds ratio"),
            rows,
            f"Positive: more likely to get {title_case(study.names['target'])}.",
        ),
    )


def balance_table(study: ComparativeStudy, public: Published) -> Table | None:
    """Tabulate the most unequal covariates, before and after matching."""
    if study.balance is None or study.covariates is None:
        return None
    rows = []
    for line in public.balance[:TOP_ROWS]:
        row = [str(line["covariate"])]
        for when in ("before", "after"):
            row += [percent(line[f"{arm}_{when}"]) for arm in ("target", "comparator")]
            row.append(decimals(line[f"smd_{when}"], 2))
        rows.append(row)
    target, comparator = (title_case(study.names[arm]) for arm in ("target", "comparator"))
    arms = ("Target", "Comp.", "Diff.")
    head = [f"{column} {when}" for when in ("before", "after") for column in arms]
    least = public.rules.least
    rounded = f"; prevalences in steps of {least} people or more" if least > 1 else ""
    return number_table(
        ("Covariate", *head),
        rows,
        f"The {len(rows)} covariates most unequal before matching: prevalence in each arm "
        f"(target: {target}, comparator: {comparator}) and standardised difference, before and "
        f"after it{rounded}.",
    )


def domain_table(study: ComparativeStudy) -> Table | None:
    """Tabulate the kinds of covariates, kept and dropped."""
    if study.covariates is None:
        return None
    return number_table(
        ("Covariates", "Kept", "Dropped: rare", "Dropped: redundant"),
        [
            (title_case(line.domain), count(line.kept), count(line.rare), count(line.redundant))
            for line in study.covariates.dropped.itertuples()
        ],
        "Columns of the propensity model by kind. Redundant: everybody has it, or it is the "
        "complement of another.",
    )
