"""Subsets of cohorts as CohortGenerator describes them: definitions and their operators."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag

from steropes.studies.strategus_plans.r_json_values import (
    Flag,
    Identifier,
    Integer,
    Items,
    JsonPath,
    MaybeInteger,
    MaybeText,
    Objects,
    RDate,
    RDays,
    RModel,
    Scalar,
    Text,
    json_path,
    parsed,
)
from steropes.studies.strategus_plans.specification_text import parsed_json

__all__ = [
    "CohortIntersection", "Demographics", "EntryLimit", "SubsetDefinition", "SubsetOperator",
    "SubsetWindow", "subset_definition",
]  # fmt: skip

Anchor = Annotated[Literal["cohortStart", "cohortEnd"], Scalar]


class SubsetWindow(RModel):
    """Days around the target's start or end in which the other cohort must start or end."""

    start_day: RDays
    end_day: RDays
    target_anchor: Anchor
    subset_anchor: Anchor = "cohortStart"
    negate: Flag = False


class CohortIntersection(RModel):
    """Keep entries of people who are in other cohorts within windows, or who are not."""

    name: MaybeText = None
    subset_type: Literal["CohortSubsetOperator"]
    cohort_ids: Items[Identifier]
    cohort_combination_operator: Annotated[Literal["any", "all"], Scalar] = "all"
    negate: Flag = False
    windows: Objects[SubsetWindow] = ()
    # CohortGenerator up to 0.11 has these two instead of a list of windows.
    start_window: SubsetWindow | None = None
    end_window: SubsetWindow | None = None

    @property
    def all_windows(self) -> tuple[SubsetWindow, ...]:
        """The windows of any version, with the anchors that old ones imply."""
        old = []
        for window, anchor in ((self.start_window, "cohortStart"), (self.end_window, "cohortEnd")):
            if window is not None:
                old.append(window.model_copy(update={"subset_anchor": anchor}))
        return (*self.windows, *old)


class Demographics(RModel):
    """Keep entries by age in the year of the start, sex, race and ethnicity."""

    name: MaybeText = None
    subset_type: Literal["DemographicSubsetOperator"]
    age_min: MaybeInteger = None
    age_max: MaybeInteger = None
    gender: Items[Any] = ()
    race: Items[Any] = ()
    ethnicity: Items[Any] = ()


class EntryLimit(RModel):
    """Keep the first, last or all entries with enough observation, within calendar dates."""

    name: MaybeText = None
    subset_type: Literal["LimitSubsetOperator"]
    prior_time: Integer = 0
    follow_up_time: Integer = 0
    minimum_cohort_duration: Integer = 0
    limit_to: Annotated[
        Literal["all", "firstEver", "earliestRemaining", "latestRemaining", "lastEver", ""], Scalar
    ] = "all"
    calendar_start_date: RDate = None
    calendar_end_date: RDate = None


def _kind(values: object) -> str:
    """Return the name of the operator's class."""
    return str(values.get("subsetType")) if isinstance(values, dict) else ""


SubsetOperator = Annotated[
    Annotated[CohortIntersection, Tag("CohortSubsetOperator")]
    | Annotated[Demographics, Tag("DemographicSubsetOperator")]
    | Annotated[EntryLimit, Tag("LimitSubsetOperator")],
    Discriminator(_kind),
]


class SubsetDefinition(RModel):
    """A sequence of operators, and the rule for the names of the resulting cohorts."""

    name: Text
    definition_id: Identifier
    subset_operators: Objects[SubsetOperator] = ()
    package_version: MaybeText = None
    identifier_expression: Text = "targetId * 1000 + definitionId"
    operator_name_concat_string: Text = ", "
    subset_cohort_name_template: Text = "@baseCohortName - @subsetDefinitionName"

    def cohort_name(self, base: str) -> str:
        """Name the subset of a cohort."""
        operators = self.operator_name_concat_string.join(
            o.name or "" for o in self.subset_operators
        )
        name = self.subset_cohort_name_template.replace("@baseCohortName", base)
        name = name.replace("@subsetDefinitionName", self.name)
        return name.replace("@operatorNames", operators)


def subset_definition(text: object, path: JsonPath) -> SubsetDefinition:
    """Read a definition, which is JSON in a text.

    Raises
    ------
    DataError
        The text is not JSON, or a field is unknown or invalid; the message has the path.
    """
    values = parsed_json(text, json_path(path)) if isinstance(text, str) else text
    return parsed(SubsetDefinition, values, path)
