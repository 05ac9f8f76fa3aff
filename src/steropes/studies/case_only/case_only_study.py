"""A case-only or case–control design in an OMOP database, with tables for release."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from steropes.data.html_representations import TextInHtml
from steropes.designs.case_only import (
    CaseOnlyResult,
    case_crossover,
    case_time_control,
    nested_case_control,
    sample_risk_sets,
    self_controlled_cohort,
    self_controlled_risk_interval,
)
from steropes.designs.case_series_from_tables.case_series_result import CaseSeriesResult
from steropes.designs.values.html_page import table_html
from steropes.studies.case_only.case_only_settings import OmopCaseOnly
from steropes.studies.case_only.case_only_tables import CaseOnlyTables, case_only_tables
from steropes.studies.case_only.released_ratios import released_attrition, released_ratios
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.disclosure.disclosure_rules import (
    DisclosureRules,
    applied_rules,
    site_rules,
)
from steropes.studies.formatting.released_page import write_tables_and_page

__all__ = ["CaseOnlyStudy", "case_only_study"]

Result = CaseOnlyResult | CaseSeriesResult
TITLES = {
    "case-crossover": "Case–crossover",
    "case-time-control": "Case–time–control",
    "case-case-time-control": "Case–case–time–control",
    "nested-case-control": "Nested case–control",
    "risk-interval": "Self-controlled risk interval",
    "self-controlled-cohort": "Self-controlled cohort",
}
COMPARED = {
    "case-crossover": "Exposure of people with the outcome just before it is compared with their "
    "exposure in earlier windows.",
    "case-time-control": "The change of exposure before the outcome is compared with that of "
    "people at risk on the same day.",
    "case-case-time-control": "The change of exposure before the outcome is compared with that of "
    "people who have the outcome later.",
    "nested-case-control": "Exposure of people with the outcome is compared with that of people "
    "at risk on the same day.",
    "risk-interval": "Outcomes in days at risk after exposure are compared with those in control "
    "days of the same people.",
    "self-controlled-cohort": "The rate of outcomes after the start of exposure is compared with "
    "the rate before it, of all exposed people.",
}


@dataclass(frozen=True, repr=False, eq=False)
class CaseOnlyStudy(TextInHtml):
    """A case-only or case–control design in a database.

    Its ``repr`` and the files of ``write`` have no small counts.

    Attributes
    ----------
    question : OmopCaseOnly
        The specification.
    result : CaseOnlyResult or CaseSeriesResult
        The exact result, which may have small counts.
    rules : DisclosureRules
        Rules for the release of results.

    See Also
    --------
    case_only_study : Runs it.

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.case_only import OmopCaseOnly, case_only_study
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> sources = CohortSources(
    ...     drugs={1: ConceptSet((1118084,))}, conditions={3: ConceptSet((192671,))}
    ... )
    >>> question = OmopCaseOnly(sources, (1,), 3, "self-controlled-cohort")
    >>> study = case_only_study(synthetic_database(2000), question)
    >>> list(study.release)
    ['case_only_estimates', 'case_only_attrition']
    """

    question: OmopCaseOnly
    result: Result
    rules: DisclosureRules

    def __repr__(self) -> str:
        """Return the released estimates."""
        shown = self.release["case_only_estimates"].to_string(index=False)
        return f"{self.question.design}\n{shown}"

    @property
    def release(self) -> dict[str, pd.DataFrame]:
        """The tables for release by name: estimates and attrition."""
        return {
            "case_only_estimates": released_ratios(self.result, self.rules),
            "case_only_attrition": released_attrition(
                self.result, self.rules, self.question.options.get("controls_per_case", 1)
            ),
        }

    def write(self, folder: str | Path, protocol: Iterable[str] = ()) -> list[Path]:
        """Write the tables and a page for release.

        Parameters
        ----------
        folder : str or Path
            Folder in which the folder ``release`` is made.
        protocol : iterable of str, optional
            Sentences on the protocol by which the study was run, for the page.

        Returns
        -------
        list of Path
            Paths of the files.
        """
        tables = self.release
        parts = [
            f"<p>{escape(self.sentence)}</p>",
            table_html(tables["case_only_estimates"]),
            "<h2>Events that remain</h2>",
            table_html(tables["case_only_attrition"]),
        ]
        title = TITLES[self.question.design]
        return write_tables_and_page(folder, title, tables, parts, self.rules, protocol)

    @property
    def sentence(self) -> str:
        """Who is compared with whom."""
        options = [f"{name.replace('_', ' ')} {_text(value)}" for name, value in
                   self.question.options.items()]  # fmt: skip
        return f"{COMPARED[self.question.design]} Settings: {'; '.join(options)}."


def _text(value: object) -> str:
    """Write a setting: a window of days, days, or whether a rule applies."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        between = " to " if len(value) == 2 else ", "
        return between.join(_text(v) for v in value)
    return "none" if value is None else str(value).replace("-", "−")


def case_only_study(
    db: OmopDatabase,
    question: OmopCaseOnly,
    cohorts: CohortTable | None = None,
    *,
    disclosure: str | DisclosureRules | None = None,
) -> CaseOnlyStudy:
    """Run a case-only or case–control design on an OMOP database.

    Parameters
    ----------
    db : OmopDatabase
        The database.
    question : OmopCaseOnly
        The specification.
    cohorts : CohortTable, optional
        Cohorts to use instead of those of the specification.
    disclosure : str or DisclosureRules, optional
        Disclosure rules of the data's owner: "ohdsi" (the default), "opensafely" or "none".

    Returns
    -------
    CaseOnlyStudy
        The exact result, and tables for release.

    Raises
    ------
    DataError
        A cohort cannot be made, no one has the outcome or an exposure, or the design cannot be
        estimated; see `steropes.designs.case_only`.

    See Also
    --------
    case_only_tables : The tables alone, for other settings of the designs.

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.case_only import OmopCaseOnly, case_only_study
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> sources = CohortSources(
    ...     drugs={1: ConceptSet((1118084,))}, conditions={3: ConceptSet((192671,))}
    ... )
    >>> question = OmopCaseOnly(sources, (1,), 3, "nested-case-control", controls_per_case=4)
    >>> study = case_only_study(synthetic_database(2000), question, disclosure="none")
    >>> study.result.estimates["kind"].tolist()
    ['exposure']
    """
    rules = site_rules(disclosure, None)
    with applied_rules(rules):
        tables = case_only_tables(db, question, cohorts)
        result = DESIGNS[question.design](tables, question.options)
    return CaseOnlyStudy(question, result, rules)


def _crossover(tables: CaseOnlyTables, own: dict[str, Any]) -> Result:
    """Run a case–crossover."""
    return case_crossover(*tables, exposure="exposure", **_windows(own))


def _sampled_controls(tables: CaseOnlyTables, own: dict[str, Any]) -> Result:
    """Run a case–time–control with controls from the risk sets of cases."""
    events, exposures, observation = tables
    sets = sample_risk_sets(
        events, observation, controls_per_case=own["controls_per_case"],
        washout=own["washout_days"], seed=own["seed"], **_matching(own),
    )  # fmt: skip
    controls = sets.loc[sets["case"] == 0, ["id", "day"]]
    return case_time_control(
        events, controls, exposures, observation, exposure="exposure", **_windows(own)
    )


def _time_control(tables: CaseOnlyTables, own: dict[str, Any]) -> Result:
    """Run a case–case–time–control."""
    events, exposures, observation = tables
    return case_time_control(
        events, "future cases", exposures, observation, exposure="exposure",
        controls_per_case=own["controls_per_case"], future_gap=own["future_gap"],
        seed=own["seed"], **_windows(own),
    )  # fmt: skip


def _nested(tables: CaseOnlyTables, own: dict[str, Any]) -> Result:
    """Run a nested case–control."""
    return nested_case_control(
        *tables, exposure="exposure", window=own["window"], washout=own["washout_days"],
        controls_per_case=own["controls_per_case"], seed=own["seed"], **_matching(own),
    )  # fmt: skip


def _interval(tables: CaseOnlyTables, own: dict[str, Any]) -> Result:
    """Run self-controlled risk intervals."""
    return self_controlled_risk_interval(
        *tables, exposure="exposure", risk_periods=own["risk"], control_periods=own["control"],
        first_event_only=True,
    )  # fmt: skip


def _cohort(tables: CaseOnlyTables, own: dict[str, Any]) -> Result:
    """Run a self-controlled cohort."""
    return self_controlled_cohort(
        *tables, exposure="exposure", risk=own["risk"], control=own["control"]
    )


def _matching(own: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of matching by their names in designs."""
    born = own["birth_days"]
    return {
        "match": ["sex"] if own["match_sex"] else [],
        "calipers": None if born is None else {"birth": born},
    }


def _windows(own: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of windows by their names in designs."""
    return {
        "window": own["window"], "references": list(own["references"]),
        "washout": own["washout_days"],
    }  # fmt: skip


DESIGNS: dict[str, Callable[[CaseOnlyTables, dict[str, Any]], Result]] = {
    "case-crossover": _crossover,
    "case-time-control": _sampled_controls,
    "case-case-time-control": _time_control,
    "nested-case-control": _nested,
    "risk-interval": _interval,
    "self-controlled-cohort": _cohort,
}
