"""The plan of TreatmentPatternsModule: cohorts, settings of pathways, and a verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from steropes.errors import DataError
from steropes.studies.strategus_plans.r_json_values import (
    Flag,
    Identifier,
    Integer,
    Items,
    JsonPath,
    LowerCase,
    RDays,
    RModel,
    Scalar,
    Text,
    json_path,
    parsed,
    table_rows,
)
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts
from steropes.studies.strategus_plans.supported_parts import PartVerdict, runs

__all__ = ["PATHWAYS", "PathwayCohort", "PathwayPlan", "Window", "pathway_plan"]

PATHWAYS = "TreatmentPatternsModule"
PART = "pathways"
# The column of a cohort entry that each anchor names.
ANCHORS = {"startDate": "first", "endDate": "last"}
Anchor = Annotated[Literal["startDate", "endDate"], Scalar]
# Settings that decide how R hides and groups pathways that disclosure control releases here.
OF_EXPORT = (
    "pathways are released by disclosure control instead of censorType and the minCellCount of "
    "the module, and without strata by age (ageWindow), as R releases them"
)


class PathwayCohort(RModel):
    """A cohort, and whether its people, its entries or its ends matter."""

    cohort_id: Identifier
    cohort_name: Text
    type: Annotated[Literal["target", "event", "exit"], LowerCase]


class _PathwaySettings(RModel):
    """The settings of TreatmentPatternsModule."""

    cohorts: Any
    include_treatments: Annotated[Literal["startDate", "endDate"] | None, Scalar] = None
    index_date_offset: Annotated[int | None, Scalar] = None
    min_era_duration: RDays = 0
    split_event_cohorts: Any = None
    split_time: Any = None
    era_collapse_size: RDays = 30
    combination_window: RDays = 30
    min_post_combination_duration: RDays = 30
    filter_treatments: Annotated[Literal["First", "Changes", "All"], Scalar] = "First"
    max_path_length: Integer = 5
    age_window: Items[Integer] = (5,)
    min_cell_count: Integer = 1
    censor_type: Annotated[Literal["minCellCount", "remove", "mean"], Scalar] = "minCellCount"
    overlap_method: Annotated[Literal["truncate", "keep"], Scalar] = "truncate"
    concat_targets: Flag = True
    start_anchor: Anchor = "startDate"
    window_start: RDays = 0
    end_anchor: Anchor = "endDate"
    window_end: RDays = 0


@dataclass(frozen=True)
class Window:
    """The days around the target in which events count.

    Attributes
    ----------
    start, end : str
        "first" or "last" day of the target, to which the offsets are added.
    start_offset, end_offset : int
        Days after these.
    of_event : {"start", "both", "end"}
        Whether events must start in the window, start and end, or end, with days before it cut off.
    """

    start: str = "first"
    start_offset: int = 0
    end: str = "last"
    end_offset: int = 0
    of_event: Literal["start", "both", "end"] = "start"


@dataclass(frozen=True)
class PathwayPlan:
    """How pathways of events are made.

    Attributes
    ----------
    cohorts : tuple of PathwayCohort
        Targets, events and exits.
    window : Window
        The days in which events count.
    shortest_entry : int
        Shortest entry of any cohort, in days from its first to its last day.
    splits : tuple of (int, int)
        Event cohorts with the number of days from which their entries are a therapy, not acute.
    longest_gap : int
        Largest gap in days between entries of an event cohort that are one era.
    combination : int
        Smallest overlap in days of two eras that is a combination.
    shortest_era : int
        Shortest era after overlaps were resolved.
    truncate : bool
        Whether an era that overlaps the next one for fewer days ends where the next one starts.
    kept : {"First", "Changes", "All"}
        Whether the first era of each event counts, changes of events, or all eras.
    longest_path : int
        Largest number of events of a pathway.
    concatenate : bool
        Whether entries of the target make one pathway of a person, not one each.
    json_text : str
        The settings as the specification has them.
    verdicts : tuple of PartVerdict
        The verdict.
    """

    cohorts: tuple[PathwayCohort, ...]
    window: Window = Window()
    shortest_entry: int = 0
    splits: tuple[tuple[int, int], ...] = ()
    longest_gap: int = 30
    combination: int = 30
    shortest_era: int = 30
    truncate: bool = True
    kept: Literal["First", "Changes", "All"] = "First"
    longest_path: int = 5
    concatenate: bool = True
    json_text: str = ""
    verdicts: tuple[PartVerdict, ...] = ()

    def of_type(self, kind: str) -> dict[int, str]:
        """Return the names of the cohorts of a type by their ids."""
        return {c.cohort_id: c.cohort_name for c in self.cohorts if c.type == kind}

    @property
    def targets(self) -> frozenset[int]:
        """The target cohorts."""
        return frozenset(self.of_type("target"))

    def without(self, refused: Mapping[int, str]) -> PathwayPlan:
        """Return the plan without targets that could not be made.

        Raises
        ------
        DataError
            No target is left, or an event or exit is missing, without which pathways are wrong.
        """
        for c in self.cohorts:
            if c.type != "target" and c.cohort_id in refused:
                raise DataError(refused[c.cohort_id])
        left = tuple(c for c in self.cohorts if c.cohort_id not in refused)
        found = replace(self, cohorts=left)
        if not found.targets:
            raise DataError(next(iter(refused.values()), "it has no target"))
        return found


def pathway_plan(settings: object, path: JsonPath, cohorts: SharedCohorts) -> PathwayPlan:
    """Read the settings of pathways.

    Raises
    ------
    DataError
        A field is unknown or invalid, or a cohort of events cannot be made.
    """
    read = parsed(_PathwaySettings, settings, path)
    listed = [
        parsed(PathwayCohort, row, (*path, "cohorts", i))
        for i, row in enumerate(table_rows(read.cohorts, (*path, "cohorts")))
    ]
    kinds = {c.type for c in listed}
    for kind in ("target", "event"):
        if kind not in kinds:
            raise DataError(f"{json_path((*path, 'cohorts'))} has no cohort of type {kind}")
    named: dict[tuple[str, str], int] = {}
    for c in listed:
        if named.setdefault((c.type, c.cohort_name), c.cohort_id) != c.cohort_id:
            raise DataError(
                f"{json_path((*path, 'cohorts'))}: cohorts {named[c.type, c.cohort_name]} and "
                f"{c.cohort_id} have the same name, by which pathways name their events"
            )
    if read.max_path_length < 1:
        place = json_path((*path, "maxPathLength"))
        raise DataError(f"{place} must be at least 1, not {read.max_path_length}")
    made = PathwayPlan(
        tuple(listed),
        _window(read),
        read.min_era_duration,
        _splits(read, path, {c.cohort_id for c in listed if c.type == "event"}),
        read.era_collapse_size,
        read.combination_window,
        read.min_post_combination_duration,
        read.overlap_method == "truncate",
        read.filter_treatments,
        read.max_path_length,
        read.concat_targets,
        json.dumps(settings, ensure_ascii=False, separators=(",", ":")),
    )
    whys = {c.cohort_id: why for c in listed if (why := cohorts.fault(c.cohort_id))}
    made = made.without(whys)
    differences = [OF_EXPORT]
    if whys:
        differences.append(f"{len(whys):,} targets are left out ({next(iter(whys.values()))})")
    needs = [(t,) for t in sorted(made.targets)]
    part = f"{PART} of {len(needs):,} target{'s' if len(needs) > 1 else ''}"
    verdict = runs(PATHWAYS, part, differences, needs=needs)
    return replace(made, verdicts=(verdict,))


def _window(read: _PathwaySettings) -> Window:
    """Return the window of events; versions before 3.1 have other names and rules for it."""
    if read.include_treatments is None and read.index_date_offset is None:
        return Window(
            ANCHORS[read.start_anchor], read.window_start, ANCHORS[read.end_anchor], read.window_end
        )
    ends = read.include_treatments == "endDate"
    return Window(start_offset=read.index_date_offset or 0, of_event="end" if ends else "both")


def _splits(
    read: _PathwaySettings, path: JsonPath, events: set[int]
) -> tuple[tuple[int, int], ...]:
    """Return the event cohorts that are split by the length of their entries.

    Raises
    ------
    DataError
        The cohorts and the numbers of days do not match, or a cohort is no event.
    """
    at = (*path, "splitEventCohorts")
    if read.split_event_cohorts in (None, "", [], {}, [""]) or read.split_time in (None, [], {}):
        return ()
    ids = parsed(_Ids, {"ids": read.split_event_cohorts}, at).ids
    days = parsed(_Ids, {"ids": read.split_time}, (*path, "splitTime")).ids
    if len(ids) != len(days):
        raise DataError(f"{json_path(at)} has {len(ids)} cohorts, but splitTime {len(days)} values")
    gone = [i for i in ids if i not in events]
    if gone:
        raise DataError(f"{json_path(at)}: cohort {gone[0]} is no event")
    return tuple(zip(ids, days, strict=True))


class _Ids(RModel):
    """A vector of whole numbers."""

    ids: Items[Identifier]
