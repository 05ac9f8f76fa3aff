"""A tree scan of all conditions of people in an OMOP database, with tables for release."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Literal, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data.diagnostic_limits import EQUIPOISE, IMBALANCE
from steropes.data.html_representations import TextInHtml
from steropes.designs.propensity.covariate_balance import covariate_balance
from steropes.designs.propensity.propensity_score_fit import fit_scores
from steropes.designs.propensity.score_matching import Match, match_scores
from steropes.designs.surveillance import TreeScan, tree_scan_people
from steropes.designs.values.html_page import table_html
from steropes.errors import DataError
from steropes.studies.cohorts.attrition import Attrition
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.cohorts.new_conditions_after_start import incident_conditions
from steropes.studies.cohorts.two_cohort_entry import compare_cohorts
from steropes.studies.covariates.feature_extraction import extract_features
from steropes.studies.database.concept_hierarchy import concept_hierarchy
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.disclosure.disclosure_rules import (
    DisclosureRules,
    applied_rules,
    site_rules,
)
from steropes.studies.formatting.released_page import write_tables_and_page
from steropes.studies.monitoring.condition_scan_settings import OmopTreeScan
from steropes.studies.monitoring.tree_scan_release import (
    released_cuts,
    released_diagnostics,
    released_people,
)

__all__ = ["ConditionScan", "scan_conditions"]

# Rules of attrition of both ways to adjust.
KEPT = {"match": "Matched by propensity score", "score": "Propensity score between 0 and 1"}

TITLE = "Scan of conditions"


@dataclass(frozen=True, repr=False, eq=False)
class ConditionScan(TextInHtml):
    """A tree scan of all conditions of people in a database.

    Its ``repr`` and the files of ``write`` have released numbers only.

    Attributes
    ----------
    question : OmopTreeScan
        The specification.
    names : tuple of str
        Names of the target and of its comparator.
    scan : TreeScan
        The exact scan, which may have small counts.
    attrition : DataFrame
        Exact numbers of people who remain after each rule.
    diagnostics : DataFrame
        ``diagnostic``, exact ``value`` and ``limit``; empty for self-controlled scans.
    rules : DisclosureRules
        Rules for the release of results.

    See Also
    --------
    scan_conditions : Runs it.

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> from steropes.studies.monitoring import OmopTreeScan, scan_conditions
    >>> drugs = CohortSources(drugs={1: ConceptSet((1118084,))})
    >>> question = OmopTreeScan(
    ...     drugs, target=1, days=(1, 90), control_days=(-90, -1), replicates=99
    ... )
    >>> list(scan_conditions(synthetic_database(2000), question).release)
    ['condition_scan', 'condition_scan_people']
    """

    question: OmopTreeScan
    names: tuple[str, str]
    scan: TreeScan
    attrition: pd.DataFrame
    diagnostics: pd.DataFrame
    rules: DisclosureRules

    def __repr__(self) -> str:
        """Return the released signals."""
        cuts = self.release["condition_scan"]
        signals = cuts[cuts["signal"]].drop(columns="signal")
        shown = signals.to_string(index=False) if len(signals) else "No signal."
        return f"{self.sentence}\n{shown}"

    @property
    def sentence(self) -> str:
        """Who is compared with whom."""
        first, last = self.question.days
        return (
            f"New conditions on days {first} to {last} after the start of {self.names[0]}, "
            f"compared with {self.names[1]}."
        )

    @property
    def release(self) -> dict[str, pd.DataFrame]:
        """The tables for release by name: cuts, people, and diagnostics of comparisons."""
        found = {
            "condition_scan": released_cuts(
                self.scan, alpha=self.question.alpha, disclosure=self.rules
            ),
            "condition_scan_people": released_people(self.attrition, self.rules),
        }
        if len(self.diagnostics):
            smallest = int(self.attrition[["target", "comparator"]].iloc[-1].min())
            found["condition_scan_diagnostics"] = released_diagnostics(
                self.diagnostics, smallest, self.rules
            )
        return found

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
        cuts = tables["condition_scan"]
        signals = cuts[cuts["signal"]].drop(columns="signal")
        how = (
            f"{self.scan.cuts:,} nodes of the vocabulary were tested (model: {self.scan.model}). "
            f"The probability of any signal without an effect is {self.question.alpha:g}."
        )
        if not self.rules.open:
            how = how.replace(f"{self.scan.cuts:,} nodes", "All nodes")
        people = tables["condition_scan_people"]
        parts = [
            f"<p>{escape(self.sentence)} {escape(how)}</p>",
            "<h2>Signals</h2>",
            table_html(_named(signals)) if len(signals) else "<p>No signal.</p>",
            "<h2>Who is compared</h2>",
            table_html(people.map(lambda text: int(text) if text.isdecimal() else text)),
        ]
        if "condition_scan_diagnostics" in tables:
            parts += ["<h2>Diagnostics</h2>", table_html(tables["condition_scan_diagnostics"])]
        parts += ["<h2>All conditions</h2>", table_html(_named(cuts))]
        return write_tables_and_page(
            folder, "Scan of conditions", tables, parts, self.rules, protocol
        )


def _named(cuts: pd.DataFrame) -> pd.DataFrame:
    """Begin with the names of concepts, where the vocabulary has some, and write limits with <."""
    concepts = cuts["node"].astype(str).rename("concept")
    known = cuts["name"].astype(str) != concepts
    rest = cuts.drop(columns=["node", "name"])
    if "events" in rest:
        rest["events"] = [f"<{-n}" if n < 0 else n for n in rest["events"]]
    return pd.concat([cuts["name"].where(known), concepts, rest], axis=1)


def scan_conditions(
    db: OmopDatabase,
    question: OmopTreeScan,
    cohorts: CohortTable | None = None,
    *,
    disclosure: str | DisclosureRules | None = None,
) -> ConditionScan:
    """Scan all conditions that people have for the first time in a window after an exposure.

    Every concept of the vocabulary above such a condition is tested with all of its descendants,
    each person counts once in it, and signals are adjusted for all of these tests.

    Parameters
    ----------
    db : OmopDatabase
        The database.
    question : OmopTreeScan
        The specification.
    cohorts : CohortTable, optional
        Cohorts to use instead of those of the specification.
    disclosure : str or DisclosureRules, optional
        Disclosure rules of the data's owner: "ohdsi" (the default), "opensafely" or "none".

    Returns
    -------
    ConditionScan
        The exact scan, and tables for release.

    Raises
    ------
    DataError
        A cohort cannot be made, no one remains, no one has a new condition, or the vocabulary has
        no hierarchy.

    See Also
    --------
    steropes.designs.surveillance.tree_scan_people : The scan.
    steropes.studies.cohorts.incident_conditions : The conditions.

    References
    ----------
    Wang and others (2018), Epidemiology 29:895–903. Yih and others (2018), American Journal of
    Epidemiology 187:1269–1276.

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import CohortSources, ConceptSet
    >>> from steropes.studies.monitoring import OmopTreeScan, scan_conditions
    >>> drugs = CohortSources(drugs={1: ConceptSet((1118084,)), 2: ConceptSet((1124300,))})
    >>> question = OmopTreeScan(drugs, target=1, comparator=2, days=(1, 90), replicates=99)
    >>> found = scan_conditions(synthetic_database(3000), question)
    >>> found.names
    ('celecoxib', 'diclofenac')
    """
    rules = site_rules(disclosure, None)
    with applied_rules(rules):
        made = cohorts
        if made is None:
            made = question.cohorts.make(db, question.roles).require_all()
        entries, attrition = _people(db, question, made)
        checks = pd.DataFrame(columns=["diagnostic", "value", "limit"])
        if question.comparator is not None:
            entries, checks = _adjusted(db, question, entries, attrition)
        first, last = question.days
        control = None if question.control_days is None else question.control_days[:2]
        records = incident_conditions(
            db, entries, days=(first, last), control_days=cast("tuple[int, int] | None", control),
            washout_days=question.washout_days,
        )  # fmt: skip
        if records.empty:
            raise DataError("nobody has a new condition in the window; check days and the washout")
        scan = _scan(db, question, records)
    other = "their own days {} to {}".format(*question.control_days or (0, 0))
    if question.comparator is not None:
        other = made.name(question.comparator)
    people = attrition.frame().drop(columns=["target_entries", "comparator_entries"])
    people = people.rename(columns=lambda name: name.removesuffix("_people"))
    if question.comparator is None:
        people = people.drop(columns="comparator")
    return ConditionScan(question, (made.name(question.target), other), scan, people, checks, rules)


def _people(
    db: OmopDatabase, question: OmopTreeScan, cohorts: CohortTable
) -> tuple[pd.DataFrame, Attrition]:
    """Return those who are observed in all windows, and how many each rule leaves."""
    # A cohort that no one is in stands for the comparator of a self-controlled scan.
    nobody = max([0, *cohorts.ids, *question.roles]) + 1
    other = nobody if question.comparator is None else question.comparator
    found = compare_cohorts(
        db, cohorts, question.target, other, question.rules, nesting=question.nesting
    )
    last = max(question.days[1], *(question.control_days or question.days))
    entries = pd.DataFrame(found.entries)
    entries = entries[entries["to_observation_end"] >= last].reset_index(drop=True)
    attrition = Attrition(found.attrition.to_dict("records"))
    attrition.count(
        f"Observed until day {last}", entries["person_id"].to_numpy(), entries["treated"].to_numpy()
    )
    arms = (1,) if question.comparator is None else (1, 0)
    for arm in arms:
        if not (entries["treated"] == arm).any():
            name = cohorts.name(question.target if arm else other)
            raise DataError(f"nobody in {name} is observed in the windows; check days and rules")
    return entries, attrition


def _adjusted(
    db: OmopDatabase, question: OmopTreeScan, entries: pd.DataFrame, attrition: Attrition
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Match people by their scores, or give them their scores as probabilities of exposure."""
    features = extract_features(db, entries[["person_id", "start"]], question.covariates)
    treated, person = entries["treated"].to_numpy(), entries["person_id"].to_numpy()
    scores = fit_scores(features, treated, question.propensity, ids=person)
    checks = [("share of people in equipoise", scores.equipoise(), EQUIPOISE)]
    if question.adjust == "match":
        rule = Match(caliper=question.caliper, seed=question.seed)
        kept = match_scores(scores.score, treated, rule, ids=person) >= 0
        if not kept.any():
            raise DataError("nobody can be matched; widen the calliper, or adjust='score'")
        balance = covariate_balance(features, treated, kept.astype(float), estimand=None)
        largest = float(np.nanmax(np.abs(balance.table["smd_after"].to_numpy()), initial=0.0))
        checks.append(("largest standardised difference", largest, IMBALANCE))
    else:
        kept = (scores.score > 0) & (scores.score < 1)
    attrition.count(KEPT[question.adjust], person[kept], treated[kept])
    entries = entries[kept].reset_index(drop=True)
    if not question.conditional:
        entries["probability"] = probability(question, scores.score[kept])
    return entries, pd.DataFrame(checks, columns=["diagnostic", "value", "limit"])


def probability(question: OmopTreeScan, score: NDArray) -> NDArray:
    """Return the probability that a person with an outcome is exposed, without an effect."""
    return np.full(len(score), 0.5) if question.adjust == "match" else score


def _scan(db: OmopDatabase, question: OmopTreeScan, records: pd.DataFrame) -> TreeScan:
    """Scan the hierarchy above the conditions."""
    tree = concept_hierarchy(db, records["node"])
    names = db.concept_names(tree["ancestor_concept_id"].unique())
    unit: Literal["person", "event"] = "event" if question.comparator is None else "person"
    if question.conditional and "probability" in records:
        records = records.drop(columns="probability")
    return tree_scan_people(
        records, tree, conditional=question.conditional, unit=unit, names=names,
        replicates=question.replicates, seed=question.seed,
    )  # fmt: skip
