"""Numbers of a study of one question for its page, files and terminal, without small counts.

All of these are made from `Published` alone, so that no output shows a number that another one
hides. Its tables are those of a grid with one question (`release_grid`). Only the propensity model
and the draws among equal scores, which grids do not store, are released here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from steropes.data.diagnostic_limits import IMBALANCE, TIED
from steropes.designs.effects.e_values import E_VALUE_FORMS
from steropes.designs.effects.outcome_summaries import informative_events
from steropes.studies.comparative.supplementary_results import e_values
from steropes.studies.database.data_quality_notes import published_notes
from steropes.studies.diagnostics.diagnostic import Verdict
from steropes.studies.diagnostics.released_values_of_verdicts import judge
from steropes.studies.diagnostics.result_blinding import (
    redacted_results,
    redacted_study,
    without_lone_crude,
)
from steropes.studies.disclosure.counts_in_text import released_text
from steropes.studies.disclosure.disclosive_digit_rounding import log_unit, significant, to_unit
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.effect_suppression import Secrecy, rounded_effect
from steropes.studies.disclosure.released_table_rows import cell, column
from steropes.studies.disclosure.small_cell_suppression import Bound, share_unit, total
from steropes.studies.one_question.study_result_rows import (
    ARMS,
    RATIOS,
    adjustment_lines,
    attrition_lines,
    balance_lines,
    follow_up_lines,
    hazard_lines,
    of_main,
    of_outcome,
    outcome_lines,
    rate_lines,
    result_lines,
    risk_lines,
)
from steropes.studies.one_question.unsuppressed_results import ExactStudy
from steropes.studies.release.grid_release import release_grid
from steropes.studies.specifications.one_question_specification import (
    ALTERNATIVES,
    CRUDE,
    MAIN,
    MATCHED,
    OWN_SCORES,
    risk_analyses,
)

if TYPE_CHECKING:
    from steropes.studies.settings.frozen_protocol import ProtocolStatement
    from steropes.studies.specifications.study_settings import StudySettings

__all__ = ["Published", "publish"]

# The analyses in decreasing precedence of their counts.
ORDER = (MAIN, MATCHED, CRUDE, *ALTERNATIVES, *OWN_SCORES)


@dataclass(frozen=True)
class Published:
    """The publishable numbers of a study.

    Attributes
    ----------
    names : dict
        Names of the ``target``, ``comparator`` and ``outcome``.
    tables : dict of str to DataFrame
        Released tables as a grid has them, without hidden effects; ``people`` and ``events`` of
        ``cm_result`` count both arms.
    rules : DisclosureRules
        Disclosure rules that were applied.
    ended : str
        Reason why the study ended before matching; empty if it did not.
    blinded : bool
        Whether the estimate is hidden, because a diagnostic fails.
    verdicts : list of Verdict
        All diagnostics.
    covariates : dict or None
        ``columns``, ``entries`` and ``domains`` of the propensity model's covariates.
    model : dict or None
        Numbers of the propensity model: ``auc``, ``variance``, ``coefficients``,
        ``caliper_logit``, ``cross_validation`` … Unless the rules are open, scores of
        ``cross_validation`` are relative to the best one, since a sum over people reveals how many
        they are.
    over : dict
        Number of covariates that differ by more than a tenth "before" and "after" matching, and
        "limit", the number that differ by the threshold or more after matching; None if unknown.
        Only covariates count whose difference hides no count; "known" of them after matching.
    ties : dict or None
        ``distinct`` is the number of distinct scores, rounded where it is close to the number of
        people. ``share`` is the share of people with a score that others have too, ``many`` is
        True if that share fails its diagnostic, and ``draws`` are the hazard ratios under other
        random orders of equal scores.
    data_notes : list of dict
        Notes on the database; see `published_notes`.
    outcomes : list of dict
        Estimates of the main analysis for all outcomes and negative controls; empty if the study
        has one outcome alone.
    """

    settings: StudySettings
    names: Mapping[str, str]
    tables: Mapping[str, pd.DataFrame]
    rules: DisclosureRules
    ended: str
    blinded: bool
    verdicts: list[Verdict]
    covariates: dict[str, Any] | None
    model: dict[str, Any] | None
    over: dict[str, int | None]
    ties: dict[str, Any] | None
    data_notes: list[dict[str, Any]]
    outcomes: list[dict[str, Any]]
    protocol: ProtocolStatement | None = None

    @cached_property
    def results(self) -> dict[int, dict[str, Any]]:
        """The result of each analysis with its diagnostics and notes."""
        return result_lines(self.tables)

    @cached_property
    def attrition(self) -> list[dict[str, Any]]:
        """People left and dropped by each rule in each arm; the last rule is the matching."""
        return attrition_lines(self.tables, MAIN, self.rules.least)

    @cached_property
    def rates(self) -> list[dict[str, Any]]:
        """People, events and rates of each arm, as ``ComparativeStudy.rates``."""
        digits = None if self.rules.open else 3 if self.rules.rounds else 6
        return rate_lines(self.tables, digits)

    @cached_property
    def hazard_ratios(self) -> list[dict[str, Any]]:
        """The crude, the matched and the main hazard ratio, with their estimands."""
        return hazard_lines(self.tables)

    @cached_property
    def adjustments(self) -> list[dict[str, Any]]:
        """The hazard ratios of the alternative adjustments."""
        return adjustment_lines(self.tables)

    @cached_property
    def risks(self) -> list[dict[str, Any]]:
        """The risks of both drugs by each of the requested days."""
        return risk_lines(self.tables, risk_analyses(self.settings))

    @cached_property
    def balance(self) -> list[dict[str, Any]]:
        """Shares and standardised differences of all covariates."""
        return [
            {name: x for name, x in line.items() if name != "moved"}
            for line in balance_lines(self.tables)
        ]

    @cached_property
    def largest(self) -> dict[str, float | Bound | None]:
        """Largest standardised differences "before" and "after" matching; None if unknown."""
        known = [abs(x) for line in self.balance if (x := line["smd_before"]) is not None]
        after = self.judged("balance").value
        if self.settings.thresholds.balance_p is not None:
            size = float(self.results[MAIN]["max_sdm"])
            after = None if math.isnan(size) else size
        return {"before": max(known, default=None), "after": after}

    @cached_property
    def follow_up(self) -> list[dict[str, Any]]:
        """Quantiles of the days of each arm that has enough people."""
        return follow_up_lines(self.tables)

    @cached_property
    def survival(self) -> pd.DataFrame:
        """Kaplan–Meier curves of the matched arms; empty where their events are hidden."""
        return self.of_main("cm_kaplan_meier_dist")

    @property
    def preference(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Densities of the preference score before and after matching."""
        names = "cm_preference_score_dist", "preference_score_after"
        return self.of_main(names[0]), self.of_main(names[1])

    @property
    def pairs(self) -> int | Bound:
        """Number of matched pairs."""
        found = self.count("matched", "target", "people")
        return 0 if found is None else found

    @property
    def detectable(self) -> float:
        """Detectable hazard ratio; NaN where it is withheld or infinite."""
        found = float(self.results[MAIN]["mdrr"])
        return found if self.rules.open else significant(found)

    @property
    def proportional_p(self) -> float:
        """P value that hazards are proportional within pairs."""
        found = float(self.results[MAIN]["proportional_p"])
        return found if self.rules.open else significant(found, 2)

    @property
    def common(self) -> bool:
        """Whether the E-values are by the form for common outcomes."""
        return not self.blinded and self.results[MAIN]["e_value_form"] == E_VALUE_FORMS[True]

    @property
    def e_value(self) -> tuple[float, float]:
        """E-values of the main hazard ratio, and of its limit that is nearer to one."""
        line = self.main_line()
        if not isinstance(self.results[MAIN]["e_value_form"], str):
            return math.nan, math.nan
        return e_values(line["hr"], line["lower"], line["upper"], self.common)

    @property
    def failed(self) -> list[Verdict]:
        """Failed diagnostics that hide the estimate."""
        return [v for v in self.verdicts if v.hides and v.verdict == "FAIL"]

    def of_main(self, table: str) -> pd.DataFrame:
        """Return the rows of a table that belong to the main analysis."""
        return of_main(self.tables, table)

    def judged(self, key: str) -> Verdict:
        """Return the diagnostic with a key."""
        return next(v for v in self.verdicts if v.key == key)

    def main_line(self) -> dict[str, Any]:
        """Return the hazard ratio within pairs, or among the matched if that is missing."""
        lines = {line["analysis"]: line for line in self.hazard_ratios}
        line = lines["matched, stratified"]
        return lines["matched"] if line["note"] else line

    def count(self, analysis: str, arm: str, what: str) -> Any:
        """Return a cell of ``rates``."""
        return next(
            line for line in self.rates if (line["analysis"], line["arm"]) == (analysis, arm)
        )[what]


def publish(study: ExactStudy) -> Published:
    """Release a study by its rules, without its estimate where a diagnostic fails.

    A crude estimate is shown only with an adjusted one. ``settings.unblind`` keeps estimates that
    fail a diagnostic, but none that would reveal a count.
    """
    rules, thresholds = study.rules, study.settings.thresholds
    kinds = dict.fromkeys(ORDER, "cox")
    kinds |= dict.fromkeys(risk_analyses(study.settings), study.settings.risk_model)
    every = release_grid(study.exact, thresholds, kinds, rules)
    every["absolute_effect"] = _risks(every["absolute_effect"], rules)
    every["cm_result"] = _results(every["cm_result"], study.exact["cm_result"], rules)
    tables = of_outcome(every)
    # By the released verdicts, because the exact ones depend on suppressed numbers of outcomes.
    visible = study.settings.unblind or bool(result_lines(tables)[MAIN]["unblind"])
    if not visible:
        tables = redacted_study(tables)
    elif not study.settings.unblind:
        tables = without_lone_crude(tables, CRUDE, [a for a in RATIOS.values() if a != CRUDE])
    released = result_lines(tables)[MAIN]
    further = of_main(tables, "further_diagnostic")
    values = dict(zip(further["diagnostic"], further["value"], strict=True))
    hidden = not visible or bool(released["note"])
    return Published(
        settings=study.settings,
        names=study.names,
        tables=tables,
        rules=rules,
        ended=released_text(study.ended, rules),
        blinded=not visible,
        verdicts=judge(study.diagnostics, released, values),
        covariates=_covariates(study),
        model=_model(study, tables),
        over=_over(study, tables),
        ties=_ties(study, hidden),
        data_notes=published_notes(study.data_notes, rules),
        outcomes=_outcomes(tables, of_outcome(every, others=True), study.settings.unblind),
        protocol=study.protocol,
    )


def _outcomes(
    main: Mapping[str, pd.DataFrame], others: Mapping[str, pd.DataFrame], unblind: bool
) -> list[dict[str, Any]]:
    """Return the lines of all outcomes, without hidden effects unless ``unblind``."""
    asked = others["cm_target_comparator_outcome"]
    controls = asked.loc[asked["outcome_of_interest"] == 0, "outcome_id"]
    checks = others["cm_diagnostics_summary"]
    shown = checks["unblind"].eq(1) | checks["outcome_id"].isin(controls)
    if not unblind:
        others = redacted_results(
            {**others, "cm_diagnostics_summary": checks.assign(unblind=shown.astype(int))}
        )
    found = {**main, "cm_diagnostics_summary": checks}
    for name in ("cm_result", "note", "cm_diagnostics_summary"):
        parts = [
            t
            for t in (main[name], checks if name == "cm_diagnostics_summary" else others[name])
            if len(t)
        ]
        found[name] = pd.concat(parts, ignore_index=True)
    return outcome_lines(found)


def _results(table: pd.DataFrame, exact: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Add the counts of both arms to results, and round their effects to three digits."""
    counts: dict[str, Any] = {}
    for name, part in (("people", "subjects"), ("events", "outcomes")):
        parts = [[cell(n) for n in table[f"{arm}_{part}"]] for arm in ARMS]
        sums = exact[[f"{arm}_{part}" for arm in ARMS]].sum(axis=1)
        counts[name] = column(
            rules.rounded(n) if all(isinstance(p, int) for p in of) else total(of)
            for n, *of in zip(sums, *parts, strict=True)
        )
    table = table.assign(**counts)
    if rules.open:
        return table
    lines = [{**of, **rounded_effect(of, Secrecy(False, 0.0))} for of in table.to_dict("records")]
    for line in lines:
        line |= {c: significant(x) for c, x in line.items() if str(c).startswith("calibrated_")}
    return pd.DataFrame(lines, columns=list(table.columns))


def _risks(table: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Round risks and their differences to three digits."""
    if rules.open:
        return table
    names = [c for c in table if "risk" in str(c)]
    return table.assign(**{c: table[c].map(lambda x: significant(float(x))) for c in names})


def _covariates(study: ExactStudy) -> dict[str, object] | None:
    """Describe the covariates of the propensity model; their number of values is rounded."""
    made, rules = study.covariates, study.rules
    if made is None:
        return None
    entries = made.entries
    if not rules.open:
        entries = int(to_unit(significant(entries, 2), 2.0 * rules.least))
    domains = made.dropped.to_dict("records")
    return {"columns": len(made.columns), "entries": entries, "domains": domains}


def _model(study: ExactStudy, tables: Mapping[str, pd.DataFrame]) -> dict[str, object] | None:
    """Round the numbers of the propensity model, whose digits would reveal the size of an arm."""
    fit, rules = study.propensity, study.rules
    if fit is None:
        return None

    def few(x: float, digits: int = 3) -> float:
        """Round to some significant digits, unless everything is released."""
        return float(x) if rules.open else significant(float(x), digits)

    sizes = [int(study.rates.loc[("all", arm), "people"]) for arm in ARMS]
    # The area under the curve is a whole number over twice the product of the sizes.
    unit = share_unit(max(math.prod(sizes), 1), 1)
    released = tables["cm_propensity_model"].set_index("covariate_id")["coefficient"]
    names = {0: fit.coefficients["name"].iloc[0]}
    covariates = tables["cm_covariate"]
    names |= dict(zip(covariates["covariate_id"], covariates["covariate_name"], strict=True))
    order = released.abs().sort_values(ascending=False, kind="stable").index
    ids = [0, *(i for i in order if i != 0)]
    return {
        "auc": fit.auc if rules.open else to_unit(fit.auc, unit),
        "variance": few(fit.model.variance_),
        "optimality": few(np.max(fit.model.optimality_), 2),
        "coefficients": [{"name": names[i], "coef": float(released[i])} for i in ids],
        "caliper_logit": few(study.settings.caliper * float(np.std(fit.logit, ddof=1))),
        "cross_validation": _searched(pd.DataFrame(fit.model.cv_results_), rules),
        "converged": fit.converged,
        # Fewer folds than requested are as many as the people of the smaller arm.
        "folds": fit.folds if rules.open or fit.folds >= study.settings.folds else None,
        "nonzero": len(fit.coefficients) - 1,
    }


def _searched(table: pd.DataFrame, rules: DisclosureRules) -> list[dict[str, object]]:
    """Return the variances that were tried, with scores relative to the best one."""
    lines = [{str(k): v for k, v in line.items()} for line in table.to_dict("records")]
    if rules.open:
        return lines
    best = float(table["mean"].max())
    return [
        {
            "variance": significant(float(line["variance"])),
            "mean": significant(float(line["mean"]) - best, 2),
            "se": significant(float(line["se"]), 2),
            "nonzero": line["nonzero"],
        }
        for line in lines
    ]


def _over(study: ExactStudy, tables: Mapping[str, pd.DataFrame]) -> dict[str, int | None]:
    """Count the covariates whose difference is large and may be compared with a limit."""
    if study.balance is None:
        return {"before": None, "after": None, "limit": None, "known": None}
    name = "cm_covariate_balance"
    exact = of_main(study.exact, name).set_index("covariate_id")
    told = of_main(tables, name).set_index("covariate_id")
    before, after = (
        exact[f"std_diff_{when}"].abs()[told[f"balanced_{when}"].notna()]
        for when in ("before", "after")
    )
    return {
        "before": int((before > IMBALANCE).sum()),
        "after": int((after > IMBALANCE).sum()) if study.pairs else None,
        "limit": int((after >= study.settings.thresholds.shown_balance).sum()),
        "known": len(after),
    }


def _ties(study: ExactStudy, hidden: bool) -> dict[str, object] | None:
    """Release how many scores are equal, and the hazard ratios of other draws among them."""
    ties, rules, n = study.ties, study.rules, len(study.people)
    if ties is None:
        return None
    distinct = ties.distinct
    if not rules.open and 2 * distinct > n:
        distinct = int(to_unit(significant(distinct, 2), rules.least))
    share = rules.fraction(round(ties.share * n), n)
    draws: tuple[float, ...] = () if hidden else tuple(ties.hazard_ratios)
    if draws and not rules.open:  # Within pairs, hazard ratios are ratios of counts.
        of = study.matched
        sets = of["set"].to_numpy()
        inside = informative_events(of["time"], of["event"], of["treated"], sets)
        unit = log_unit(min(inside), rules.least)
        logs = [to_unit(math.log(x), unit) for x in draws if 0 < x < math.inf]
        draws = tuple(significant(math.exp(x)) for x in logs if math.isfinite(x))
    many = ties.share >= TIED
    return {"distinct": distinct, "share": share, "many": many, "draws": draws}
