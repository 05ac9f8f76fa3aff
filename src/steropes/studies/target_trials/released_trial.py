"""Tables of an emulated target trial for release, without small counts of people.

A person is in many trials, so that numbers of person-trials do not show how few people they are:
what is released counts people, each once in an arm.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from steropes.designs.target_trials.emulation_result import EmulatedTrial
from steropes.designs.target_trials.person_time import read_person_time
from steropes.designs.target_trials.sequential_trial_rows import start_trials
from steropes.studies.disclosure.disclosive_digit_rounding import significant, to_digits
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.effect_suppression import WITHHELD
from steropes.studies.target_trials.trial_settings import OmopTrial

__all__ = ["TrialPeople", "released_trial", "trial_people"]

ARMS = ("treatment", "no treatment")
# Diagnostics whose values are shares of people, and those that are numbers of people, rows or of
# the weight of a single person, of which the verdict is released alone.
SHARES = ("share in trials with one strategy only", "least effective share of those at risk")
VERDICTS = ("largest weight",)
COUNTS = ("people", "person-trials", "events in person-trials", "rows left out")


@dataclass(frozen=True, repr=False, eq=False)
class TrialPeople:
    """Numbers of people of a sequence of trials, each counted once in an arm.

    Attributes
    ----------
    arms : DataFrame
        A row per strategy: ``people`` and ``events``, people with the outcome in a trial.
    at_risk : DataFrame
        By ``strategy`` and ``time``, the number of periods since the start: ``people`` at risk in
        a trial.
    """

    arms: pd.DataFrame
    at_risk: pd.DataFrame

    def closed(self, rules: DisclosureRules) -> bool:
        """Return whether an arm has few people, few with the outcome, or few without it."""
        people, events = self.arms["people"], self.arms["events"]
        return any(rules.small(n) for n in (*people, *events, *(people - events)))

    def last_time(self, rules: DisclosureRules) -> int:
        """Return the last time at which both arms have enough people at risk; 0 if none has."""
        least = max(rules.least, 1)
        enough = self.at_risk.groupby("time")["people"].agg(
            lambda n: len(n) == len(ARMS) and (n >= least).all()
        )
        short = enough.index[~enough.to_numpy(bool)]
        return int(short.min()) - 1 if len(short) else int(enough.index.max())


def trial_people(table: pd.DataFrame, trial: OmopTrial) -> TrialPeople:
    """Count the people of a sequence of trials.

    Parameters
    ----------
    table : DataFrame
        As of `person_time`.
    trial : OmopTrial
        The specification.
    """
    rows = read_person_time(
        table, id="person_id", period="period", treatment="treated", outcome="outcome",
        eligible="eligible", censored="censored", covariates=[], measured={},
    )  # fmt: skip
    found = start_trials(rows, trial.effect, trial.follow_up, None)
    each = pd.DataFrame(
        {"person": found.person, "assigned": found.assigned, "length": found.length,
         "event": found.event}
    )  # fmt: skip
    longest = each.groupby(["assigned", "person"])[["length", "event"]].max().reset_index()
    arms, parts = [], []
    for name, value in zip(ARMS, (1, 0), strict=True):
        own = longest[longest["assigned"] == value]
        arms.append((name, len(own), int(own["event"].sum())))
        ended = np.bincount(own["length"], minlength=int(each["length"].max()) + 1)
        at_risk = ended[::-1].cumsum()[::-1][1:]
        time = np.arange(1, len(ended))
        parts.append(pd.DataFrame({"strategy": name, "time": time, "people": at_risk}))
    return TrialPeople(
        pd.DataFrame(arms, columns=["strategy", "people", "events"]),
        pd.concat(parts, ignore_index=True),
    )


def released_trial(
    found: EmulatedTrial, people: TrialPeople, trial: OmopTrial, rules: DisclosureRules
) -> dict[str, pd.DataFrame]:
    """Return the tables of a target trial for release, by the names of their files.

    If an arm has few people, few with the outcome or few without it, effects and risks are
    withheld. Risks and contrasts end with the last time at which both arms have enough people at
    risk, and contrasts are those of the released risks. Numbers of people at risk are rounded to
    multiples of the smallest count, because the difference of two of them may be few people.

    Parameters
    ----------
    found : EmulatedTrial
        The exact result.
    people : TrialPeople
        Its people.
    trial : OmopTrial
        The specification.
    rules : DisclosureRules
        Rules of the release.
    """
    closed = people.closed(rules)
    last = people.last_time(rules)
    risks = _risks(found.risks, last, trial, closed, rules)
    return {
        "target_trial_protocol": protocol(found, trial),
        "target_trial_effects": _effects(pd.DataFrame(found.effects), closed, rules),
        "target_trial_people": _arms(people, rules),
        "target_trial_risks": risks,
        "target_trial_contrasts": _contrasts(found.contrasts, risks, rules),
        "target_trial_weights": _weights(found, people, last, trial, rules),
        "target_trial_diagnostics": _diagnostics(found.diagnostics, people, rules),
    }


def protocol(found: EmulatedTrial, trial: OmopTrial) -> pd.DataFrame:
    """Return the protocol and its emulation, without numbers of people."""
    table = found.protocol.copy()
    table.loc["Eligibility criteria", "emulation"] = (
        f"The same criteria on the first day of each of {trial.periods} periods of "
        f"{trial.period_days} days"
    )
    return table.rename_axis("component").reset_index()


def _effects(table: pd.DataFrame, closed: bool, rules: DisclosureRules) -> pd.DataFrame:
    """Release the coefficients of the strategies."""
    kept = table[["measure", "term", "estimate", "lower", "upper", "p", "errors"]].copy()
    if closed:
        kept[["estimate", "lower", "upper", "p"]] = np.nan
    elif not rules.open:
        for name in ("estimate", "lower", "upper"):
            kept[name] = to_digits(kept[name].to_numpy(float), 3)
        kept["p"] = to_digits(kept["p"].to_numpy(float), 2)
    return kept.assign(note=WITHHELD if closed else "")


def _arms(people: TrialPeople, rules: DisclosureRules) -> pd.DataFrame:
    """Release the people of both arms and those with the outcome."""
    rows = []
    for name, n, events in people.arms.itertuples(index=False):
        rows.append((name, str(rules.count(n)), str(rules.part(events, n))))
    return pd.DataFrame(rows, columns=["strategy", "people", "people_with_outcome"])


def _risks(
    table: pd.DataFrame, last: int, trial: OmopTrial, closed: bool, rules: DisclosureRules
) -> pd.DataFrame:
    """Release risks by day."""
    kept = table[table["time"] <= (0 if closed else last)].copy()
    kept.insert(2, "day", kept["time"] * trial.period_days)
    for name in ("risk", "lower", "upper", "se"):
        kept[name] = _digits(kept[name], rules)
    return kept.drop(columns="se").reset_index(drop=True)


def _contrasts(table: pd.DataFrame, risks: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release differences and ratios of the released risks, with limits around them."""
    kept = table[table["time"].isin(risks["time"])].copy()
    if rules.open or kept.empty:
        days = risks.drop_duplicates("time").set_index("time")["day"]
        kept.insert(3, "day", kept["time"].map(days))
        return kept.drop(columns="se").reset_index(drop=True)
    own = risks.pivot(index="time", columns="strategy", values="risk")
    one, other = (own[name].reindex(kept["time"]).to_numpy() for name in ARMS)
    is_ratio = kept["measure"].eq("risk ratio").to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(is_ratio, one / other, one - other)
        moved = np.where(is_ratio, value / kept["estimate"], value - kept["estimate"])
    for name in ("lower", "upper"):
        limit = kept[name].to_numpy()
        kept[name] = np.where(is_ratio, limit * moved, limit + moved)
    kept["estimate"] = value
    for name in ("estimate", "lower", "upper"):
        kept[name] = _digits(kept[name], rules)
    days = risks.drop_duplicates("time").set_index("time")["day"]
    kept.insert(3, "day", kept["time"].map(days))
    return kept.drop(columns="se").reset_index(drop=True)


def _weights(
    found: EmulatedTrial, people: TrialPeople, last: int, trial: OmopTrial, rules: DisclosureRules
) -> pd.DataFrame:
    """Release who is at risk in both arms, and the mean and effective share of weights, by day."""
    own = people.at_risk.pivot(index="time", columns="strategy", values="people")
    own = own.loc[own.index <= last]
    weights = found.weights.set_index("time").loc[own.index]
    share = weights["effective_size"] / weights["at_risk"]
    smaller = own[list(ARMS)].min(axis=1)
    table = pd.DataFrame({"time": own.index, "day": own.index * trial.period_days})
    for name in ARMS:
        table[f"at_risk_{name.replace(' ', '_')}"] = [rules.coarse(int(n)) for n in own[name]]
    mean = weights["mean"].to_numpy()
    table["mean_weight"] = mean if rules.open else to_digits(mean, 2)
    table["effective_share"] = [
        rules.stepped(float(x), int(n)) for x, n in zip(share, smaller, strict=True)
    ]
    return table


def _diagnostics(table: pd.DataFrame, people: TrialPeople, rules: DisclosureRules) -> pd.DataFrame:
    """Release the diagnostics, those of single people as verdicts alone."""
    if rules.open:
        return table
    fewest = int(people.arms["people"].min())
    rows = []
    for name, value, limit, passed, note in table.itertuples(index=False):
        if name in COUNTS:
            continue
        shown = significant(float(value), 2)
        if name in SHARES:
            shown = rules.stepped(float(value), fewest)
        elif name in VERDICTS:
            shown = np.nan
        rows.append((name, shown, limit, passed, note))
    return pd.DataFrame(rows, columns=table.columns)


def _digits(values: pd.Series, rules: DisclosureRules) -> np.ndarray:
    """Round to three significant digits, unless everything is released."""
    x = values.to_numpy(float)
    return x if rules.open else np.array([significant(float(v)) for v in x])
