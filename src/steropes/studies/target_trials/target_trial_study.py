"""A target trial emulated in an OMOP database, with tables and a page for release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd

from steropes.data.html_representations import TextInHtml
from steropes.data.plottable_result_tables import drawn_by
from steropes.designs.target_trials.emulation_result import EmulatedTrial
from steropes.designs.values.html_page import figures, table_html
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.disclosure.disclosure_rules import (
    DisclosureRules,
    applied_rules,
    site_rules,
)
from steropes.studies.formatting.released_page import write_tables_and_page
from steropes.studies.target_trials.emulated_trial import fit_trial
from steropes.studies.target_trials.omop_person_periods import person_time
from steropes.studies.target_trials.released_trial import TrialPeople, released_trial, trial_people
from steropes.studies.target_trials.trial_settings import OmopTrial

__all__ = ["TargetTrialStudy", "target_trial_study"]

TITLE = "Emulated target trial"
SHOWN = 12  # Of more than twice as many periods, so many are on the page.


@dataclass(frozen=True, repr=False, eq=False)
class TargetTrialStudy(TextInHtml):
    """A target trial emulated in a database.

    Its ``repr`` and the files of ``write`` have released numbers only.

    Attributes
    ----------
    trial : OmopTrial
        The specification.
    result : EmulatedTrial
        The exact result, which may have small counts.
    people : TrialPeople
        Exact numbers of people of both arms.
    rules : DisclosureRules
        Rules for the release of results.

    See Also
    --------
    target_trial_study : Runs it.

    Examples
    --------
    >>> from datetime import date
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> from steropes.studies.target_trials import OmopTrial, target_trial_study
    >>> sources = CohortSources(
    ...     drugs={1: ConceptSet((1118084,))}, conditions={3: ConceptSet((192671,))}
    ... )
    >>> trial = OmopTrial(sources, 1, 3, date(2008, 1, 1), date(2009, 12, 31), period_days=90)
    >>> study = target_trial_study(synthetic_database(2000), trial)
    >>> study.release["target_trial_risks"].columns.tolist()
    ['strategy', 'time', 'day', 'risk', 'lower', 'upper']
    """

    trial: OmopTrial
    result: EmulatedTrial
    people: TrialPeople
    rules: DisclosureRules

    def __repr__(self) -> str:
        """Return the estimand with the released effects and the last contrasts."""
        tables = self.release
        effects = tables["target_trial_effects"].drop(columns=["errors"])
        contrasts = tables["target_trial_contrasts"]
        last = contrasts[contrasts["time"] == contrasts["time"].max()]
        parts = [self.result.estimand, effects.to_string(index=False)]
        if len(last):
            parts.append(last.drop(columns=["contrast", "time"]).to_string(index=False))
        failed = tables["target_trial_diagnostics"]
        parts += [
            f"Failed: {row.diagnostic}. {row.note}"
            for row in failed[~failed["passed"].astype(bool)].itertuples()
        ]
        return "\n".join(parts)

    @property
    def release(self) -> dict[str, pd.DataFrame]:
        """The tables for release by name: protocol, effects, people, risks, weights and checks."""
        return released_trial(self.result, self.people, self.trial, self.rules)

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
        risks = tables["target_trial_risks"]

        def draw(what: str, **options: object) -> None:
            """Draw the released risks."""
            drawn = risks.rename(columns={"risk": "incidence"}).drop(columns="time")
            drawn = drawn.rename(columns={"day": "time"})
            drawn_by("incidence_curves", drawn, **{**options, "time_label": "Days"})

        parts = [
            f"<p>{escape(self.result.estimand)}</p>",
            "<h2>Protocol</h2>",
            table_html(tables["target_trial_protocol"]),
            "<h2>Effect</h2>",
            table_html(tables["target_trial_effects"]),
            *(figures(draw, {"risks": "Risk by day"}) if len(risks) else ()),
            "<h2>Differences and ratios of risks</h2>",
            _some_times(tables, "target_trial_contrasts"),
            "<h2>People</h2>",
            table_html(tables["target_trial_people"]),
            "<h2>Can it be trusted?</h2>",
            table_html(tables["target_trial_diagnostics"]),
            "<h2>Who is at risk, and weights</h2>",
            _some_times(tables, "target_trial_weights"),
        ]
        return write_tables_and_page(
            folder, "Emulated target trial", tables, parts, self.rules, protocol
        )


def _some_times(tables: Mapping[str, pd.DataFrame], name: str) -> str:
    """Show the rows of a table, of many periods only those of some at equal distances."""
    table = tables[name]
    times = table["time"].unique()
    if len(times) <= 2 * SHOWN:
        return table_html(table)
    kept = times[np.linspace(0, len(times) - 1, SHOWN).round().astype(int)]
    text = f"<p>{SHOWN} of {len(times):,} periods; all are in {name}.csv.</p>"
    return text + table_html(table[table["time"].isin(kept)])


def target_trial_study(
    db: OmopDatabase,
    trial: OmopTrial,
    cohorts: CohortTable | None = None,
    *,
    disclosure: str | DisclosureRules | None = None,
) -> TargetTrialStudy:
    """Emulate a target trial in a database, with tables for release.

    Parameters
    ----------
    db : OmopDatabase
        The database.
    trial : OmopTrial
        The specification.
    cohorts : CohortTable, optional
        Cohorts to use instead of those of the specification.
    disclosure : str or DisclosureRules, optional
        Disclosure rules of the data's owner: "ohdsi" (the default), "opensafely" or "none".

    Returns
    -------
    TargetTrialStudy
        The exact result, and tables for release.

    Raises
    ------
    DataError
        As of `person_time` and `sequential_trials`.

    See Also
    --------
    emulate_trial : The exact result alone.

    Examples
    --------
    >>> from datetime import date
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> from steropes.studies.target_trials import OmopTrial, target_trial_study
    >>> sources = CohortSources(
    ...     drugs={1: ConceptSet((1118084,))}, conditions={3: ConceptSet((192671,))}
    ... )
    >>> trial = OmopTrial(sources, 1, 3, date(2008, 1, 1), date(2009, 12, 31), period_days=90)
    >>> target_trial_study(synthetic_database(2000), trial).result.effects["measure"].tolist()
    ['odds ratio']
    """
    rules = site_rules(disclosure, None)
    with applied_rules(rules):
        if cohorts is None:
            cohorts = trial.cohorts.make(db, trial.roles).require_all()
        table = person_time(db, trial, cohorts)
        return TargetTrialStudy(
            trial, fit_trial(table, trial, cohorts), trial_people(table, trial), rules
        )
