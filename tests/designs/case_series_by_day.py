"""The slow and obvious case series from tables: every day of every case by itself."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict


def joined(eras, gap):
    """Eras (first, last) that are joined if few days are between them."""
    found = []
    for first, last in sorted(eras):
        near = found and (first == found[-1][0] if gap is None else first <= found[-1][1] + 1 + gap)
        if near:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


def period_on(day, eras, periods):
    """The number of the dose and of the period that a day belongs to, or None."""
    winner = None
    for dose, (first, last) in enumerate(eras):
        following = eras[dose + 1][0] if dose + 1 < len(eras) else None
        for k, p in enumerate(periods):
            if p.first_only and dose:
                continue
            low = (last if p.start_at == "end" else first) + p.start
            high = (last if p.end_at == "end" else first) + p.end
            if p.within_era:
                high = min(high, last)
            if following is not None:
                high = min(high, following - 1)
            if low <= day <= high:
                winner = dose, k
    return winner


def days_by_covariates(people, events, exposures, periods, gap, age, season):
    """Days and events of each case by the set of its covariates.

    people are (id, start, end), exposures (id, name, first, last), and days are ages of people born
    on 1970-01-01.
    """
    names = sorted({name for _, name, _, _ in exposures})
    found = {}
    for person, start, end in sorted(people):
        days = {d for i, d in events if i == person and start <= d <= end}
        if not days:
            continue
        rows = defaultdict(lambda: [0, 0])
        for day in range(start, end + 1):
            on = set()
            for name in names:
                own = [(a, b) for i, n, a, b in exposures if (i, n) == (person, name)]
                mine = [p for p in periods if p.exposure in (None, name)]
                at = period_on(day, joined(own, gap), mine)
                if at is not None:
                    dose, k = at
                    numbered = f"{name} dose {dose + 1}" if mine[k].by_dose else name
                    on.add(f"{numbered}: {mine[k].text}")
            if age:
                on.add(("age", sum(day >= cut for cut in age)))
            if season:
                date = dt.date(1970, 1, 1) + dt.timedelta(days=day)
                months = [m for m in season if m <= date.month]
                on.add(("season", months[-1] if months else season[-1]))
            rows[frozenset(on)][0] += 1
            rows[frozenset(on)][1] += day in days
        found[person, start] = {key: tuple(value) for key, value in rows.items()}
    return found
