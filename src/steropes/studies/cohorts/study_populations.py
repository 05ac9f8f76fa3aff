"""Study populations: the people at risk of an outcome, their time at risk and their events."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data.html_representations import TextInHtml
from steropes.designs.settings.settings_base_class import Settings
from steropes.designs.settings.validated_types import Days, YesNo
from steropes.errors import DataError
from steropes.studies.cohorts.attrition import Attrition
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.cohorts.people_frame_with_hidden_rows import People, rules_of_run
from steropes.studies.cohorts.time_at_risk import TimeAtRisk
from steropes.studies.cohorts.two_cohort_entry import Comparison
from steropes.studies.cohorts.two_cohort_entry_rules import NEVER, days

__all__ = ["PopulationRules", "StudyPopulation", "everyone", "study_population"]


class PopulationRules(Settings):
    """Rules that select the entries of a study population before its time at risk is determined.

    They apply to the entries that the rules of the comparison leave, in the order of the list, as
    ``createStudyPopulation`` of CohortMethod 5 applies them.

    Parameters
    ----------
    first_only : bool, default False
        Only a person's first remaining entry in each cohort counts.
    common_period : bool, default False
        Keep those who start while both cohorts are entered, determined from the remaining entries.
    both : {"keep all", "keep first", "remove all"}, default "keep all"
        How people in both cohorts are treated. With "keep first" a person has one entry, the first
        one; people whose first two entries are on one day lose those.
    washout_days : int, default 0
        Days of observation required before the start.

    Examples
    --------
    >>> from steropes.studies.cohorts import PopulationRules
    >>> PopulationRules(both="keep first").washout_days
    0
    """

    first_only: YesNo = False
    common_period: YesNo = False
    both: Literal["keep all", "keep first", "remove all"] = "keep all"
    washout_days: Days = 0

    def apply(
        self, entries: pd.DataFrame, count: Callable[[str, pd.DataFrame], None]
    ) -> pd.DataFrame:
        """Return the entries that the rules leave.

        Parameters
        ----------
        entries : DataFrame
            ``person_id``, ``treated``, ``start`` and ``observed_before``.
        count : callable
            Called with the description and the remaining entries of each rule.

        Returns
        -------
        DataFrame
            The remaining entries.
        """
        if self.first_only:
            ordered = entries.sort_values(["person_id", "treated", "start"], kind="stable")
            kept = ordered.index[~ordered.duplicated(["person_id", "treated"])]
            entries = entries[entries.index.isin(kept)]
            count("First exposure only", entries)
        if self.common_period:
            starts = entries.groupby("treated")["start"].agg(["min", "max"])
            inside = entries["start"].between(starts["min"].max(), starts["max"].min())
            entries = entries[inside] if len(starts) == 2 else entries
            count("Restrict to common period", entries)
        if self.both == "remove all":
            arms = entries.groupby("person_id")["treated"].transform("nunique")
            entries = entries[arms.to_numpy() < 2]
            count("Removed subjects in both cohorts", entries)
        elif self.both == "keep first":
            ordered = entries.sort_values(["person_id", "start"], kind="stable")
            ordered = ordered[~ordered.duplicated(["person_id", "start"], keep=False)]
            kept = ordered.index[~ordered.duplicated("person_id")]
            entries = entries[entries.index.isin(kept)]
            count("Restricting duplicate subjects to first cohort", entries)
        if self.washout_days:
            entries = entries[entries["observed_before"] >= self.washout_days]
            count(f"At least {self.washout_days} days of observation prior", entries)
        return entries.copy()


@dataclass(frozen=True, repr=False, eq=False)
class StudyPopulation(TextInHtml):
    """The entries of a comparison that are at risk of an outcome.

    Attributes
    ----------
    people : DataFrame
        One row per entry: ``row`` (its position in ``Comparison.entries``), ``person_id``,
        ``treated``, ``start``, ``risk_start`` and ``risk_end`` (days from the start),
        ``days_at_risk`` (both days inclusive), ``outcomes`` (distinct days at risk with an
        outcome), ``event`` (1 if there is one; 2 if a competing outcome came first) and ``time``
        (days to the event, or days at risk).
    attrition : DataFrame
        The attrition of the comparison, with a row for each rule of the outcome.
    outcome : int or None
        Id of the outcome's cohort.
    name : str
        Name of the outcome.

    See Also
    --------
    study_population : Determine the people at risk of an outcome.

    Examples
    --------
    >>> from steropes.studies.cohorts import compare_cohorts, condition_cohorts, drug_era_cohorts
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import study_population
    >>> db = synthetic_database(200)
    >>> cohorts = drug_era_cohorts(db, {1: 1118084, 2: 1124300})
    >>> cohorts = cohorts + condition_cohorts(db, {3: 192671})
    >>> population = study_population(compare_cohorts(db, cohorts, 1, 2), cohorts, outcome=3)
    >>> population.name
    'Gastrointestinal hemorrhage'
    """

    people: pd.DataFrame
    attrition: pd.DataFrame
    outcome: int | None
    name: str

    def __repr__(self) -> str:
        from steropes.studies.disclosure import shown_count

        n, events = len(self.people), int(self.people["event"].sum())
        rules = rules_of_run(self.people)
        counts = f"{shown_count(n, rules)} entries, {shown_count(events, rules)} with it"
        return f"StudyPopulation({self.name}: {counts})"


def study_population(
    comparison: Comparison,
    cohorts: CohortTable,
    outcome: int | None,
    at_risk: TimeAtRisk | None = None,
    *,
    competing: int | None = None,
    rules: PopulationRules | None = None,
) -> StudyPopulation:
    """Determine the people at risk of an outcome, their time at risk and their events.

    Parameters
    ----------
    comparison : Comparison
        Entries of the target and the comparator.
    cohorts : CohortTable
        Contains the outcome's cohort; an outcome occurs on the start of an entry. A cohort without
        entries is an outcome that no one has.
    outcome : int or None
        Id of that cohort. None gives the people at risk regardless of the outcome.
    at_risk : TimeAtRisk, optional
        Time at risk. Default: that of ``TimeAtRisk()``.
    competing : int, optional
        Id of the cohort of a competing outcome, such as death: ``event`` is 2 if it came first, and
        the time ends there.
    rules : PopulationRules, optional
        Further rules for the entries, which are applied first.

    Returns
    -------
    StudyPopulation
        It may be empty; see its attrition.

    Raises
    ------
    DataError
        The cohorts belong to another database.

    Examples
    --------
    >>> from steropes.studies.cohorts import compare_cohorts, condition_cohorts, drug_era_cohorts
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import study_population
    >>> db = synthetic_database(200)
    >>> cohorts = drug_era_cohorts(db, {1: 1118084, 2: 1124300})
    >>> cohorts = cohorts + condition_cohorts(db, {3: 192671})
    >>> population = study_population(compare_cohorts(db, cohorts, 1, 2), cohorts, outcome=3)
    >>> bool((population.people["time"] <= population.people["days_at_risk"]).all())
    True
    """
    rule = at_risk or TimeAtRisk()
    if cohorts.database and cohorts.database != comparison.database:
        raise DataError(
            f"the outcomes are of the database {cohorts.database}, the people of "
            f"{comparison.database}"
        )
    entries = pd.DataFrame(comparison.entries)
    entries.insert(0, "row", np.arange(len(entries)))
    recorded = _outcome_days(entries, cohorts.only([] if outcome is None else outcome))
    events = _observed(recorded)
    first = rule.start + (0 if rule.day_zero else 1)
    risk_start = first + _anchor(entries, rule.start_anchor)
    entries["risk_start"] = risk_start
    attrition = Attrition(comparison.attrition.to_dict("records"))

    def count(rule_text: str) -> None:
        attrition.count(rule_text, entries["person_id"].to_numpy(), entries["treated"].to_numpy())

    if rules is not None:
        entries = rules.apply(
            entries,
            lambda text, left: attrition.count(
                text, left["person_id"].to_numpy(), left["treated"].to_numpy()
            ),
        )
    if rule.remove_prior and outcome is not None:
        counted = recorded if rule.look_back is None else events
        start = risk_start[counted["row"]]
        prior = counted["day"] < start
        if rule.look_back is not None:
            prior &= counted["day"] > -rule.look_back
        entries = entries[~np.isin(entries["row"], counted["row"][prior])].copy()
        count("No prior outcome")
    entries["risk_end"] = _risk_end(entries, rule)
    if rule.censor_at_new_window:
        entries = _censor_at_next(entries)
        count("Censoring at start of new time-at-risk")
    if rule.min_days:
        length = entries["risk_end"] - entries["risk_start"] + 1
        entries = entries[length >= rule.min_days].copy()
        unit = "day" if rule.min_days == 1 else "days"
        count(f"Have at least {rule.min_days} {unit} at risk")
    else:
        entries = entries[entries["risk_end"] >= entries["risk_start"]].copy()
        count("Have a day at risk")
    people = _with_outcomes(entries, events)
    if competing is not None:
        others = _observed(_outcome_days(entries, cohorts.only(int(competing))))
        people = _with_competing(people, others)
    name = "any outcome" if outcome is None else cohorts.name(outcome)
    return StudyPopulation(people, attrition.frame(), outcome, name)


def everyone(comparison: Comparison) -> StudyPopulation:
    """Return all entries of a comparison as a population that has no outcome.

    Parameters
    ----------
    comparison : Comparison
        Entries of the target and the comparator.

    Returns
    -------
    StudyPopulation
        The time at risk is the time in the cohort, and the attrition that of the comparison.
    """
    entries = pd.DataFrame(comparison.entries)
    entries.insert(0, "row", np.arange(len(entries)))
    entries["risk_start"], entries["risk_end"] = 0, entries["to_end"]
    nothing = {"row": np.zeros(0, np.int64), "day": np.zeros(0, np.int64)}
    people = _with_outcomes(entries, nothing)
    return StudyPopulation(people, comparison.attrition.copy(), None, "any outcome")


def _anchor(entries: pd.DataFrame, anchor: str) -> NDArray:
    """Return the days from the start to the anchor."""
    if anchor == "cohort end":
        return entries["to_end"].to_numpy()
    if anchor == "observation end":
        return entries["to_observation_end"].to_numpy()
    return np.zeros(len(entries), dtype=np.int64)


def _risk_end(entries: pd.DataFrame, rule: TimeAtRisk) -> NDArray:
    """Return the last day at risk, before any censoring at the next entry."""
    end = np.minimum(
        rule.end + _anchor(entries, rule.end_anchor), entries["to_observation_end"].to_numpy()
    )
    if rule.max_days is not None:
        end = np.minimum(end, entries["risk_start"].to_numpy() + rule.max_days - 1)
    if rule.censor_at_switch:
        end = np.minimum(end, entries["to_switch"].to_numpy() - 1)
    return end


def _outcome_days(entries: pd.DataFrame, outcome: CohortTable) -> dict[str, NDArray]:
    """Find each entry's recorded outcomes: ``row``, ``day`` from the start, and ``observed``.

    Observed are those in the observation period of the entry (1, otherwise 0).
    """
    subject, on = outcome.subject, days(outcome.start)
    new = np.ones(len(on), bool)  # Entries are in the order of subject and start.
    new[1:] = (subject[1:] != subject[:-1]) | (on[1:] != on[:-1])
    subject, on = subject[new], on[new]
    person = entries["person_id"].to_numpy()
    by_person = np.argsort(person, kind="stable")
    first, after = (np.searchsorted(person[by_person], subject, side) for side in ("left", "right"))
    count = after - first
    # The k-th entry of each person with an outcome, for every outcome.
    kth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    at = by_person[np.repeat(first, count) + kth]
    day = np.repeat(on, count) - days(entries["start"].to_numpy())[at]
    observed = (day >= -entries["observed_before"].to_numpy()[at]) & (
        day <= entries["to_observation_end"].to_numpy()[at]
    )
    found = {"row": entries["row"].to_numpy()[at], "day": day, "observed": observed}
    order = np.lexsort((day, found["row"]))
    return {name: values[order].astype(np.int64) for name, values in found.items()}


def _observed(recorded: dict[str, NDArray]) -> dict[str, NDArray]:
    """Select the recorded outcomes that lie in the observation period of their entry."""
    inside = recorded["observed"] == 1
    return {name: recorded[name][inside] for name in ("row", "day")}


def _censor_at_next(entries: pd.DataFrame) -> pd.DataFrame:
    """End each entry's risk the day before the risk of the person's next entry begins."""
    began = days(entries["start"].to_numpy())
    first = began + entries["risk_start"].to_numpy()
    order = np.lexsort((first, entries["person_id"].to_numpy()))
    person = entries["person_id"].to_numpy()[order]
    following = np.full(len(order), NEVER)
    same = person[1:] == person[:-1]
    following[:-1][same] = first[order][1:][same]
    end = entries["risk_end"].to_numpy().copy()
    end[order] = np.minimum(end[order], following - 1 - began[order])
    cut = entries.assign(risk_end=end)
    return cut[cut["risk_end"] >= np.minimum(cut["risk_start"], entries["risk_end"])].copy()


def _with_outcomes(entries: pd.DataFrame, events: dict[str, NDArray]) -> People:
    """Add the days at risk, the number of outcomes and the first event to the entries."""
    rows, start, end = (entries[c].to_numpy() for c in ("row", "risk_start", "risk_end"))
    at, day = _days_at_risk(rows, start, events)
    at, day = at[day <= end[at]], day[day <= end[at]]
    counts = np.bincount(at, minlength=len(rows))
    first = np.full(len(rows), math.inf)
    np.minimum.at(first, at, day)
    length = (end - start + 1).astype(float)
    return People(
        {
            **{c: entries[c].to_numpy() for c in ("row", "person_id", "treated", "start")},
            "risk_start": start,
            "risk_end": end,
            "days_at_risk": length.astype(np.int64),
            "outcomes": counts.astype(np.int64),
            "event": (counts > 0).astype(np.int64),
            "time": np.where(counts > 0, first - start + 1, length),
        }
    )


def _with_competing(people: People, others: dict[str, NDArray]) -> People:
    """End the time of people with a competing outcome before any other event."""
    columns = ("row", "risk_start", "time", "event")
    rows, start, time, event = (people[c].to_numpy() for c in columns)
    at, day = _days_at_risk(rows, start, others)
    first = np.full(len(rows), math.inf)
    np.minimum.at(first, at, day)
    own = first - start + 1
    # A competing outcome on the last day of a censored person counts as well.
    came = (own < time) | ((own == time) & (event == 0))
    return People(people.assign(event=np.where(came, 2, event), time=np.where(came, own, time)))


def _days_at_risk(
    rows: NDArray, start: NDArray, events: dict[str, NDArray]
) -> tuple[NDArray, NDArray]:
    """Return the position among the rows and the day of each event since the start of risk."""
    order = np.argsort(rows)
    at = np.searchsorted(rows, events["row"], sorter=order)
    known = at < len(rows)
    at, row, day = order[at[known]], events["row"][known], events["day"][known]
    inside = (rows[at] == row) & (day >= start[at])
    return at[inside], day[inside]
