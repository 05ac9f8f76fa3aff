"""Parts of the one-question page about how it was done: the methods in words, and the settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from html import escape
from typing import TYPE_CHECKING

from steropes.studies.comparative.estimands import estimand_name
from steropes.studies.report.formatting import risk_period, title_case

if TYPE_CHECKING:
    from steropes.studies.comparative.one_question import ComparativeStudy

__all__ = ["methods_parts"]


def methods_parts(study: ComparativeStudy) -> Iterator[str]:
    """How the study was done, and with which settings."""
    yield "<h2>How it was done</h2>"
    yield "\n".join(f"<p>{p}</p>" for p in _paragraphs(study))
    yield "<h2>Settings</h2>"
    lines = []
    for name, value in asdict(study.settings).items():
        shown = "none" if value in (None, ()) else str(value)
        if isinstance(value, dict):
            shown = ", ".join(f"{k} {'none' if v is None else f'{v:g}'}" for k, v in value.items())
        if name in study.names:
            shown = f"{shown} ({title_case(study.names[name])})"
        lines.append(f"<dt>{escape(name)}</dt><dd>{escape(shown)}</dd>")
    yield f"<dl>{''.join(lines)}</dl>"


def _paragraphs(study: ComparativeStudy) -> tuple[str, ...]:
    s = study.settings
    target, comparator, outcome = (escape(title_case(name)) for name in study.names.values())
    return (
        f"<b>People.</b> Whoever used {target} or {comparator} is in the arm of the drug that "
        "they began first, on the day of its first era (the start); people who began both on one "
        f"day are left out. They must have been under observation for {s.washout_days} days "
        f"before the start without a gap, and never have had {outcome} recorded up to and "
        "including the start.",
        f"<b>Outcome.</b> The first record of {outcome}. People are at risk {risk_period(s)}; "
        "whoever reaches that end without the outcome is censored there.",
        "<b>Covariates.</b> Age in five-year groups, sex, calendar year of the start, and one "
        "yes-or-no covariate for each condition, drug ingredient, procedure, measurement and "
        f"observation recorded in the {s.window_days} days up to and including the start, the two "
        f"study drugs excepted. Covariates of fewer than {s.min_people} people or less than "
        f"{100 * s.min_share:g}% of them are left out.",
        "<b>Propensity score.</b> Logistic regression of the arm on all covariates with a Laplace "
        f"prior (a lasso), whose variance is the one that predicts best in {s.folds}-fold "
        "cross-validation.",
        "<b>Matching.</b> One to one: of all pairs of a person on each drug, the closest is taken "
        "first, and so on until no pair is left within "
        f"{s.caliper:g} standard deviations of the logit of the propensity score. Among people "
        "with equal scores a random key decides, made of the person’s id and the seed "
        f"{s.seed}; the order of the database has no say. The effect is that among "
        f"{estimand_name('atm')}.",
        "<b>Balance.</b> The standardised mean difference is the difference of two prevalences, "
        "divided by the root of the mean of their variances.",
        "<b>Effect.</b> Cox regression of the time to the outcome on the arm, ties after Efron, "
        "with Wald intervals: within matched pairs (stratified), among the matched people without "
        "regard to pairs, and among everybody without any adjustment, for comparison.",
        "<b>Limits.</b> Matching balances what is recorded. What the database does not hold, such "
        "as the severity of a disease or smoking, may still differ between the arms.",
    )
