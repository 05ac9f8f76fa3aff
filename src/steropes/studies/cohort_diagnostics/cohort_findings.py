"""Problems of cohorts in words, from the released tables of their diagnostics.

Only released numbers are read, so that a finding shows nothing that the tables do not show.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import pandas as pd

__all__ = ["PEOPLE", "cohort_findings"]

# A concept dominates the index events with this share of their records.
DOMINANT = 0.9
# A rule loses nearly everybody if no more than this share meets it.
KEPT = 0.05
# Rates of neighbouring years differ by this factor and this many standard errors of its logarithm.
JUMP, ERRORS = 2.0, 3.0
PEOPLE = 1  # The mode of inclusion statistics that counts people.
COLUMNS = ["cohort_id", "topic", "finding"]
READ = (
    "cd_cohort_count", "cd_concept_sets", "cd_resolved_concepts", "cd_cohort_inc_stats",
    "cd_cohort_summary_stats", "cd_cohort_inclusion", "cd_index_event_breakdown",
    "cd_incidence_rate", "cd_orphan_concept",
)  # fmt: skip
Tables = Mapping[str, pd.DataFrame]


def cohort_findings(
    tables: Tables,
    cohorts: Mapping[int, str],
    refused: Mapping[int, str],
    concepts: Mapping[int, str],
) -> pd.DataFrame:
    """Describe the problems of cohorts.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Released tables by R's names.
    cohorts : mapping of int to str
        Names of the cohorts.
    refused : mapping of int to str
        Cohorts that could not be made, with the reason.
    concepts : mapping of int to str
        Names of concepts.

    Returns
    -------
    DataFrame
        ``cohort_id``, ``topic`` and ``finding``, a sentence.
    """
    rows: list[tuple[int, str, str]] = []
    # Tables are divided once, because there may be thousands of cohorts.
    places = {
        name: (tables[name], tables[name].groupby("cohort_id").indices)
        for name in READ
        if name in tables and "cohort_id" in tables[name]
    }
    for cohort in cohorts:
        if cohort in refused:
            rows.append((cohort, "definition", f"The definition does not run: {refused[cohort]}."))
            continue
        own = {name: table.iloc[at[cohort]] for name, (table, at) in places.items() if cohort in at}
        for topic, found in (
            ("size", _size(own)),
            ("concept sets", _empty_sets(own)),
            ("inclusion rules", _rules(own)),
            ("index events", _index_events(own, concepts)),
            ("incidence", _jumps(own)),
            ("orphan concepts", _orphans(own, concepts)),
        ):
            rows += [(cohort, topic, text) for text in found]
    return pd.DataFrame(rows, columns=COLUMNS)


def _of(own: Tables, name: str) -> pd.DataFrame:
    """Return the cohort's rows of a table, none if the table is missing."""
    return own.get(name, pd.DataFrame())


def _size(own: Tables) -> Iterator[str]:
    """Describe cohorts of no one or few."""
    counts = _of(own, "cd_cohort_count")
    people = 0.0 if counts.empty else float(counts["cohort_subjects"].iloc[0])
    if people == 0:
        yield "Nobody meets the definition in this database."
    elif people < 0:
        yield f"Fewer than {-people:.0f} people meet the definition in this database."


def _empty_sets(own: Tables) -> Iterator[str]:
    """Describe concept sets without a concept."""
    sets, resolved = _of(own, "cd_concept_sets"), _of(own, "cd_resolved_concepts")
    known = {*resolved["concept_set_id"]} if len(resolved) else set()
    for line in sets.to_dict("records"):
        if line["concept_set_id"] not in known:
            yield f"The concept set {line['concept_set_name']!r} has no concept of the vocabulary."


def _rules(own: Tables) -> Iterator[str]:
    """Describe inclusion rules that lose everybody or nearly everybody."""
    stats, summary = (_of(own, f"cd_cohort_{name}") for name in ("inc_stats", "summary_stats"))
    if stats.empty or summary.empty:
        return
    stats, summary = (t[t["mode_id"] == PEOPLE] for t in (stats, summary))
    if stats.empty or summary.empty:
        return
    base, final = (float(summary[name].iloc[0]) for name in ("base_count", "final_count"))
    named = _of(own, "cd_cohort_inclusion")
    names = {} if named.empty else named.set_index("rule_sequence")["name"].to_dict()
    for rule, met in zip(stats["rule_sequence"], stats["person_count"].astype(float), strict=True):
        name = names.get(rule, f"rule {int(rule) + 1}")
        if base > 0 and met == 0:
            yield f"Nobody meets the criterion {name!r}: it loses all {base:,.0f} people."
        elif base > 0 and 0 < met <= KEPT * base:
            yield (
                f"The criterion {name!r} loses nearly everybody: {met:,.0f} of {base:,.0f} people "
                "meet it."
            )
    if base > 0 and final == 0 and not (stats["person_count"] == 0).any():
        yield f"All {base:,.0f} people are lost by several criteria together; each is met by some."


def _index_events(own: Tables, concepts: Mapping[int, str]) -> Iterator[str]:
    """Describe index events of one concept, or of none that the definition asks for."""
    events = _of(own, "cd_index_event_breakdown")
    if not events.empty:
        events = events[~events["domain_field"].str.endswith("source_concept_id")]
    resolved = _of(own, "cd_resolved_concepts")
    if events.empty or len(resolved) < 2:
        return
    known = events["concept_count"].clip(lower=0)
    whole, top = known.sum(), known.idxmax() if known.sum() > 0 else None
    if top is None or len(events) < 2:
        return
    share = known[top] / whole
    if share >= DOMINANT:
        concept = int(events.loc[top, "concept_id"])
        yield (
            f"Index events are dominated by one concept: {_named(concept, concepts)} has "
            f"{100 * share:.0f} % of {whole:,.0f} records on index dates."
        )


def _jumps(own: Tables) -> Iterator[str]:
    """Describe rates that change abruptly from one year to the next.

    Where person-years are withheld, first entries are compared instead.
    """
    rates = _of(own, "cd_incidence_rate")
    if rates.empty:
        return
    yearly = rates[
        rates["age_group"].isna() & rates["gender"].isna() & rates["calendar_year"].notna()
    ]
    yearly = yearly[yearly["cohort_count"] > 0].sort_values("calendar_year")
    rate = yearly["incidence_rate"].where(yearly["person_years"] > 0)
    years = yearly["calendar_year"].astype(int)
    lines = list(zip(years, yearly["cohort_count"], rate, strict=True))
    for (before, n, rate_before), (year, m, rate_after) in zip(lines[:-1], lines[1:], strict=True):
        known = rate_before > 0 and rate_after > 0
        old, new = (rate_before, rate_after) if known else (n, m)
        change = math.log(new / old)
        least = max(math.log(JUMP), ERRORS * math.sqrt(1 / n + 1 / m))
        if year == before + 1 and abs(change) >= least:
            verb = "rise" if change > 0 else "fall"
            numbers = f"abruptly from {before} to {year}: from {_rate(old)} to {_rate(new)}"
            yield (
                f"Incidence {verb}s {numbers} per 1,000 person-years."
                if known
                else f"First entries {verb} {numbers}; person-years of these years are withheld."
            )


def _rate(rate: float) -> str:
    """Write a rate with three digits, or as a whole number if it has more."""
    return f"{rate:.3g}" if rate < 100 else f"{rate:,.0f}"


def _orphans(own: Tables, concepts: Mapping[int, str]) -> Iterator[str]:
    """Describe recorded concepts that the definition may have missed."""
    orphans = _of(own, "cd_orphan_concept")
    if orphans.empty:
        return
    known = orphans[orphans["concept_count"] > 0].drop_duplicates("concept_id")
    if known.empty:
        return
    top = known.loc[known["concept_count"].idxmax()]
    others = f", and {len(known) - 1:,} more" if len(known) > 1 else ""
    yield (
        "Recorded concepts have names like those of its concept sets and are in none of them: "
        f"{_named(int(top['concept_id']), concepts)} with {top['concept_count']:,.0f} "
        f"records{others}."
    )


def _named(concept: int, concepts: Mapping[int, str]) -> str:
    """Name a concept with its id."""
    name = concepts.get(concept)
    return f"{name} ({concept})" if name else f"concept {concept}"
