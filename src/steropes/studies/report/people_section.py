"""Parts of the one-question page about the people: attrition, propensity scores, balance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING

from steropes.studies.disclosure.study import Published
from steropes.studies.report.formatting import count, decimals, percent, title_case
from steropes.studies.report.html import number_table, paragraphs

if TYPE_CHECKING:
    from steropes.studies.comparative.one_question import ComparativeStudy

__all__ = ["attrition_parts", "balance_parts", "propensity_parts"]

TOP_ROWS = 20


def attrition_parts(
    study: ComparativeStudy, public: Published, figures: Mapping[str, str]
) -> Iterator[str]:
    """What each rule left of both arms."""
    rows = []
    for line in public.attrition:
        row = [title_case(line["rule"])]
        for arm in ("target", "comparator"):
            dropped = line[f"{arm}_dropped"]
            gone = count(dropped) if dropped != 0 else ""
            sign = "−" if isinstance(dropped, int) and dropped else ""
            row += [count(line[arm]), sign + gone]
        rows.append(tuple(row))
    target, comparator = (title_case(study.names[arm]) for arm in ("target", "comparator"))
    least = public.rules.least
    hidden = (
        f" Counts of fewer than {least} people are shown as “<{least}”, and a count from which "
        "one would follow is shown as a limit, or as a dash."
        if least > 1
        else ""
    )
    rules = "The rules in the order in which they were applied, with the people left and dropped."
    yield f"<h2>Who was studied</h2>\n<p>{escape(rules + hidden)}</p>"
    yield figures.get("attrition", "")
    yield number_table(("Rule", target, "dropped", comparator, "dropped"), {"": rows})
    yield paragraphs(note["note"] for note in public.data_notes)


def propensity_parts(
    study: ComparativeStudy, public: Published, figures: Mapping[str, str]
) -> Iterator[str]:
    """The propensity model and its scores, or why there are none."""
    yield "<h2>Propensity score</h2>"
    fit = study.propensity
    if fit is None or study.covariates is None:
        yield f"<p>None was fitted: {escape(study.ended)}.</p>"
        return
    yield (
        f"<p>Of {count(len(study.covariates.columns))} covariates, {len(fit.coefficients) - 1} "
        f"have a coefficient; the area under the ROC curve is {decimals(public.scores['auc'], 3)}. "
        f"Cross-validation chose a prior variance of {public.scores['variance']:.3g}.</p>"
    )
    yield figures.get("preference", "")
    strongest = public.scores["coefficients"][1 : TOP_ROWS // 2 + 1]
    rows = [(str(line["name"]), decimals(line["coef"])) for line in strongest]
    if rows:
        yield number_table(
            ("Strongest covariates", "Log odds ratio"),
            {"": rows},
            f"Positive: more likely to get {title_case(study.names['target'])}.",
        )


def balance_parts(
    study: ComparativeStudy, public: Published, figures: Mapping[str, str]
) -> Iterator[str]:
    """Covariates before and after matching, and which became columns."""
    if study.balance is None or study.covariates is None:
        return
    rows = []
    for line in public.balance[:TOP_ROWS]:
        row = [str(line["covariate"])]
        for when in ("before", "after"):
            row += [percent(line[f"{arm}_{when}"]) for arm in ("target", "comparator")]
            row.append(decimals(line[f"smd_{when}"], 2))
        rows.append(tuple(row))
    target, comparator = (title_case(study.names[arm]) for arm in ("target", "comparator"))
    arms = ("Target", "Comp.", "Diff.")
    head = [f"{what} {when}" for when in ("before", "after") for what in arms]
    least = public.rules.least
    rounded = f"; prevalences in steps of {least} people or more" if least > 1 else ""
    yield "<h2>Covariate balance</h2>"
    yield figures.get("balance", "")
    yield figures.get("love", "")
    yield number_table(
        ("Covariate", *head),
        {"": rows},
        f"The {len(rows)} covariates most unequal before matching: prevalence in each arm "
        f"(target: {target}, comparator: {comparator}) and standardised difference, before and "
        f"after it{rounded}.",
    )
    domains = [
        (title_case(line.domain), count(line.kept), count(line.rare), count(line.redundant))
        for line in study.covariates.dropped.itertuples()
    ]
    yield number_table(
        ("Covariates", "Kept", "Dropped: rare", "Dropped: redundant"),
        {"": domains},
        "Columns of the propensity model by kind. Redundant: everybody has it, or it is the "
        "complement of another.",
    )
