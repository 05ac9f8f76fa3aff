"""The specification of a target trial, printed as the table of Hernán and Robins (2016)."""

from __future__ import annotations

from dataclasses import fields

import pandas as pd

from steropes.designs.settings.settings_base_class import Settings

__all__ = ["TargetTrial", "protocol_table"]

# The components in the words of Hernán and Robins (2016), table 1.
COMPONENTS = {
    "eligibility": "Eligibility criteria",
    "strategies": "Treatment strategies",
    "assignment": "Assignment procedures",
    "follow_up": "Follow-up period",
    "outcome": "Outcome",
    "contrast": "Causal contrasts of interest",
    "analysis": "Analysis plan",
}


class TargetTrial(Settings):
    """The protocol of the randomised trial that an analysis emulates.

    Every component is a sentence about the trial that one would like to run. The result of
    `sequential_trials` or `clone_censor_weight` has a table with these sentences and, derived from
    its settings, how each component is emulated.

    Parameters
    ----------
    eligibility : str
        Who is enrolled, such as "Women from 50 years without earlier cancer".
    strategies : str
        The treatments that are compared, with their grace periods.
    assignment : str, default "Randomly assigned, without blinding"
        How people come to follow a strategy.
    follow_up : str
        When follow-up begins and ends.
    outcome : str
        The event, and how it is found.
    contrast : str
        Such as "Intention-to-treat and per-protocol effects".
    analysis : str
        The analysis that one would do in the trial.

    References
    ----------
    Hernán and Robins (2016), American Journal of Epidemiology 183:758–764, table 1.

    Examples
    --------
    >>> import steropes
    >>> trial = steropes.designs.target_trials.TargetTrial(
    ...     eligibility="Adults with diabetes", outcome="Death from any cause"
    ... )
    >>> trial.table().shape
    (7, 1)
    """

    eligibility: str = ""
    strategies: str = ""
    assignment: str = "Randomly assigned, without blinding"
    follow_up: str = ""
    outcome: str = ""
    contrast: str = ""
    analysis: str = ""

    def table(self) -> pd.DataFrame:
        """Return the components as a table with one column, ``target_trial``.

        Returns
        -------
        DataFrame
            A row for each of the seven components.
        """
        return pd.DataFrame(
            {"target_trial": [getattr(self, f.name) for f in fields(self)]},
            index=pd.Index([COMPONENTS[f.name] for f in fields(self)], name="component"),
        )


def protocol_table(trial: TargetTrial | None, emulation: TargetTrial) -> pd.DataFrame:
    """Put the target trial and its emulation side by side.

    Components that ``trial`` leaves out have the words of the emulation.
    """
    found = emulation.table()["target_trial"]
    wanted = (TargetTrial(assignment="") if trial is None else trial).table()["target_trial"]
    own = wanted.where(wanted != "", found)
    if trial is None:
        own[COMPONENTS["assignment"]] = TargetTrial().assignment
    return pd.DataFrame({"target_trial": own, "emulation": found})
