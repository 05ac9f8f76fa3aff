"""Strategies in observed person-time: treatments that they have, and who follows them how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.target_trials.emulation_diagnostics import Row, censoring_table
from steropes.designs.target_trials.person_time import PersonTime
from steropes.designs.time_varying.sustained_strategies import Strategy, planned_treatment
from steropes.errors import DataError

__all__ = ["FollowedStrategies", "horizons_within"]

# Smallest share of those at risk who have followed a strategy so far.
FOLLOWERS = 0.05


@dataclass(frozen=True, repr=False)
class FollowedStrategies:
    """Rows with the treatments that each strategy has for them.

    Attributes
    ----------
    rows : PersonTime
    when : ndarray of int, shape (n,)
        Periods, counted from 0 at the first row of each person.
    planned : mapping of str to ndarray of int8, shape (n,)
    """

    rows: PersonTime
    when: NDArray[np.int64]
    planned: Mapping[str, NDArray[np.int8]]

    @classmethod
    def of(cls, rows: PersonTime, strategies: Mapping[str, Strategy]) -> FollowedStrategies:
        """Evaluate the strategies and check that they are followed.

        Raises
        ------
        DataError
            People begin in different periods, only one strategy is given, or a strategy has no
            followers.
        """
        first = rows.period[rows.starts[:-1]]
        if (first != first[0]).any():
            raise DataError(
                "People begin in different periods; count periods from the start of each person."
            )
        when = rows.period - first[0]
        if len(strategies) < 2:
            raise DataError("strategies needs two or more, of which the last is the reference.")
        frame = rows.data.assign(period=when)
        found = cls(
            rows, when,
            {name: planned_treatment(name, of, frame, when) for name, of in strategies.items()},
        )  # fmt: skip
        for name in found.planned:
            if not found.followers(name)[0]:
                raise DataError(
                    f"Nobody follows the strategy {name!r} in the first period; compare strategies "
                    "that some people follow."
                )
        return found

    @property
    def periods(self) -> int:
        """Number of periods of the data."""
        return int(self.when.max()) + 1

    def followers(self, name: str) -> NDArray[np.int64]:
        """Count who has followed a strategy through each period."""
        follows = self.follows(self.planned[name])
        return np.bincount(self.when[follows], minlength=self.periods)

    def follows(self, plan: NDArray) -> NDArray[np.bool_]:
        """Return whether the person of each row has followed a plan so far."""
        broken = np.cumsum(self.rows.treatment != plan)
        before = np.append(0, broken)[self.rows.starts[:-1]]
        return np.asarray(broken == before[self.rows.person])

    def table(self) -> pd.DataFrame:
        """Count people at risk and followers of each strategy by period."""
        at_risk = np.bincount(self.when)
        return pd.concat(
            [
                pd.DataFrame(
                    {"strategy": name, "time": np.arange(1, len(at_risk) + 1), "at_risk": at_risk,
                     "followers": self.followers(name)}
                )
                for name in self.planned
            ],
            ignore_index=True,
        )  # fmt: skip

    def checks(self, horizon: int) -> list[Row]:
        """Count people, and check that each strategy is followed until the horizon."""
        rows: list[Row] = [("people", float(self.rows.people), np.nan, True, "")]
        table = self.table()
        for name in self.planned:
            own = table[(table["strategy"] == name) & (table["time"] <= horizon)]
            share = float((own["followers"] / own["at_risk"]).min())
            note = (
                ""
                if share >= FOLLOWERS
                else "Few or no people follow the strategy to the end, so that the risk rests on "
                "the form of the models alone."
            )
            rows.append((f"least share of followers of {name!r}", share, FOLLOWERS, not note, note))
        return rows

    def censoring(self) -> pd.DataFrame:
        """Count how follow-ups end, by the first treatment."""
        last = self.rows.starts[1:] - 1
        event, lost = self.rows.outcome[last] == 1, self.rows.censored[last] == 1
        reasons = {"outcome": event, "lost": lost & ~event, "end of follow-up": ~event & ~lost}
        arm = 1 - self.rows.treatment[self.rows.starts[:-1]]
        names = ("treated at first", "untreated at first")
        return censoring_table(names, arm, self.when[last] + 1, reasons)


def horizons_within(horizons: Sequence[int] | None, periods: int) -> NDArray[np.int64]:
    """Return the sorted horizons, or all periods; refuse those outside the data."""
    wanted = np.arange(1, periods + 1) if horizons is None else np.unique(np.asarray(horizons))
    if not len(wanted) or wanted.min() < 1 or wanted.max() > periods:
        raise DataError(f"horizons must be numbers of periods from 1 to {periods}.")
    return wanted
