"""SQL statements of each kind of covariate analysis.

Each statement inserts rows (covariate_id, row_id, value) into ``features``. ``people`` has row_id,
person_id and start; ``excluded`` and ``included`` have concepts.

A recorded value is used only if it is a finite number within the range of single precision. NaN,
infinities, larger numbers and text that is not a number are left out before any value is chosen,
and ``Statements.unusable`` counts them. A record without a value (NULL, blank text) contributes to
no covariate of values or ranges and is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from steropes.errors import DataError
from steropes.studies.covariates.comorbidity_scores import (
    CHADS2,
    CHADS2VASC,
    CHARLSON,
    DCSI,
    Category,
)
from steropes.studies.covariates.covariate_analysis_catalogue import Analysis
from steropes.studies.covariates.vocabulary_checks import FINDING
from steropes.studies.database.age_sql import age_sql
from steropes.studies.database.irregular_rows import distinct_people, last_day
from steropes.studies.database.observation_periods import joined_periods
from steropes.studies.database.omop import OmopDatabase, RecordsOf

__all__ = ["OTHER_UNIT", "Statements", "unusable", "usable"]

# Conditions within two levels below clinical finding that are groups nevertheless.
HIGH_GROUPS = (
    *(433736, 433595, 441408, 72404, 192671, 137977, 434621, 437312, 439847, 4171917),
    *(438555, 4299449, 375258, 76784, 40483532, 4145627, 434157, 433778, 258449, 313878),
)
# Names of groups that carry no information about a person.
VAGUE = (
    *("%finding", "Disorder of%", "Finding of%", "Disease of%", "Injury of%", "%by site"),
    *("%by body site", "%by mechanism", "%of body region", "%of anatomical site"),
    "%of specific body structure%",
)
ATC_LENGTHS = (1, 3, 4, 5)
# The columns of numbers that each kind of analysis reads.
RECORDED = {"value": ("value_as_number",), "range": ("value_as_number", "range_low", "range_high")}
PEOPLE = "SELECT person_id FROM people"
# The ids of values are smaller than this for the units that keep R's ids, since concepts are 32-bit
# numbers; UNIT_GROUPS multiples are 64-bit numbers.
OTHER_UNIT, UNIT_GROUPS = 2_300_000_000_000_000, 3999
LARGEST = 3.4028234663852886e38  # The largest number in single precision, the type of covariates.


class Statements:
    """The SQL statements of analyses on one database.

    Parameters
    ----------
    end_day : int
        Last day of every window, relative to the start.
    only_included : bool
        Whether ``included`` restricts the concepts.
    birthdays : bool, default False
        Whether age groups count completed years instead of the difference of two years.
    """

    def __init__(
        self, db: OmopDatabase, end_day: int, only_included: bool, birthdays: bool = False
    ) -> None:
        self.db, self.end, self.only_included = db, int(end_day), only_included
        self.birthdays = birthdays
        self._suspect: dict[tuple[str, str], bool] = {}

    def insert(self, analysis: Analysis, first_day: int | None) -> Iterator[str]:
        """Yield the INSERT statements of one analysis; none if the database lacks the table.

        Raises
        ------
        DataError
            The table lacks a required column.
        """
        if analysis.kind == "demographic":
            yield from self._demographic(analysis.id)
            return
        if analysis.kind == "length":
            yield self._length(analysis.id)
            return
        columns = self.db.columns(analysis.table)
        if "person_id" not in columns:  # The table is missing or an empty stub.
            return
        extra = {
            "range": RECORDED["range"],
            "value": (*RECORDED["value"], "unit_concept_id"),
            "value as concept": ("value_as_concept_id",),
        }
        needed = ("person_id", analysis.concept, analysis.first, analysis.last)
        gone = [c for c in (*needed, *extra.get(analysis.kind, ())) if c not in columns]
        if gone:
            raise DataError(
                f"covariate analysis {analysis.id} ({analysis.name}) needs the column {gone[0]} of "
                f"the table {analysis.table}, which {self.db.name} lacks; leave the analysis out"
            )
        if analysis.kind == "score":
            yield from self._score(analysis)
        elif analysis.kind == "group":
            yield from self._group(analysis, first_day)
        elif analysis.kind == "value":
            yield from self._values(analysis, first_day)
        else:
            yield self._records(analysis, first_day)

    def unusable(self, analysis: Analysis, first_day: int | None) -> str | None:
        """Return SQL that counts records with an unusable value; None if no value is read."""
        if analysis.kind not in RECORDED or "person_id" not in self.db.columns(analysis.table):
            return None
        unread = " OR ".join(unusable(f"e.{c}") for c in RECORDED[analysis.kind])
        table = (analysis.table, analysis.kind)
        if table not in self._suspect:  # One pass over the columns saves a join for each window.
            found = self.db.rows(
                f"SELECT 1 FROM {self.db.table(analysis.table)} e WHERE {unread} LIMIT 1"
            )
            self._suspect[table] = bool(found)
        if not self._suspect[table]:
            return None
        return (
            f"SELECT count(*) {self._joined(analysis)} WHERE ({unread}) "
            f"AND {self._in_window(analysis, first_day)} {self._allowed(f'e.{analysis.concept}')}"
        )

    @staticmethod
    def value_code(concept: str, number: int) -> str:
        """Return SQL of the id of a value as a concept, of records ``e``."""
        about = f"{concept}::HUGEINT * 2654435769 // 4096"
        value = "e.value_as_concept_id::HUGEINT * 2654435769 // 1024"
        return (
            f"(({about})::BIGINT & 1048575) * 4194304000 "
            f"+ (({value})::BIGINT & 4194303) * 1000 + {number}"
        )

    # -- kinds of analyses -----------------------------------------------------------------------

    def _records(self, a: Analysis, first_day: int | None) -> str:
        """Insert covariates of single records: concepts, ranges, values and counts."""
        concept = f"e.{a.concept}::BIGINT"
        name, where = (
            f"{concept} * 1000 + {a.id}",
            f"{self._in_window(a, first_day)} {self._allowed(f'e.{a.concept}')}",
        )
        source = f"{self._joined(a)} WHERE {where}"
        insert = "INSERT INTO features "
        if a.kind == "concept":
            return f"{insert} SELECT DISTINCT {name}, p.row_id, 1 {source}"
        if a.kind == "range":
            number, low, high = (usable(f"e.{c}") for c in RECORDED["range"])
            group = f"CASE WHEN {number} < {low} THEN 1 WHEN {number} > {high} THEN 3 ELSE 2 END"
            return (
                f"{insert} SELECT DISTINCT {concept} * 10000 + {group} * 1000 + {a.id}, p.row_id, "
                f"1 {source} AND {number} IS NOT NULL AND {low} IS NOT NULL AND {high} IS NOT NULL"
            )
        if a.kind == "value as concept":
            return (
                f"{insert} SELECT DISTINCT {self.value_code(concept, a.id)}, p.row_id, 1 {source} "
                "AND e.value_as_concept_id IS NOT NULL AND e.value_as_concept_id <> 0"
            )
        counted = f"count(DISTINCT e.{a.concept})" if a.kind == "distinct" else self._visits()
        name = name if a.kind == "by concept" else f"{1000 + a.id}::BIGINT"
        return f"{insert} SELECT {name}, p.row_id, {counted} {source} GROUP BY 1, 2"

    def _values(self, a: Analysis, first_day: int | None) -> Iterator[str]:
        """Insert the last value of each concept in each unit, in own columns; fill ``units``.

        Of several on one day, the smallest counts, as in R's package. R's ids have the last three
        digits of the unit. If units agree in these, the smallest keeps R's id, and those of the
        others are larger by multiples of `OTHER_UNIT`.
        """
        number, unit = usable("e.value_as_number"), "coalesce(e.unit_concept_id, 0)::BIGINT"
        order = f"(e.{a.first}::DATE, -{number})"
        yield (
            "CREATE OR REPLACE TEMP TABLE last_values AS "
            f"SELECT e.{a.concept}::BIGINT AS concept, p.row_id, {unit} AS unit, "
            f"arg_max({number}, {order}) AS value {self._joined(a)} "
            f"WHERE {self._in_window(a, first_day)} {self._allowed(f'e.{a.concept}')} "
            f"AND {number} IS NOT NULL GROUP BY 1, 2, 3"
        )
        yield (
            "CREATE OR REPLACE TEMP TABLE units AS SELECT concept, unit, "
            f"concept * 1000000 + (unit % 1000) * 1000 + {a.id} + CASE WHEN row_number() OVER "
            "(PARTITION BY concept, unit % 1000 ORDER BY unit) > 1 "
            f"THEN (unit // 1000 % {UNIT_GROUPS} + 1) * {OTHER_UNIT} ELSE 0 END AS covariate_id "
            "FROM (SELECT DISTINCT concept, unit FROM last_values)"
        )
        yield (
            "INSERT INTO features SELECT covariate_id, row_id, value "
            "FROM last_values JOIN units USING (concept, unit)"
        )

    def _visits(self) -> str:
        """Return SQL that counts visits; rows with the same visit id are one visit."""
        if "visit_occurrence_id" not in self.db.columns("visit_occurrence"):
            return "count(*)"
        unnumbered = "count(*) FILTER (e.visit_occurrence_id IS NULL)"
        return f"count(DISTINCT e.visit_occurrence_id) + {unnumbered}"

    def _group(self, a: Analysis, first_day: int | None) -> Iterator[str]:
        """Insert covariates of groups above the recorded concepts (drug classes, conditions)."""
        db = self.db
        if not db.columns("concept_ancestor"):
            return
        ancestor = db.links(
            "descendant_concept_id", lambda: db.recorded_concepts(db.table(a.table), a.concept)
        )
        concept = db.concepts(lambda: db.recorded_concepts(ancestor, "ancestor_concept_id"))
        if a.domain == "Drug":
            self._need(
                "concept",
                (
                    "vocabulary_id",
                    "concept_code",
                    "standard_concept",
                    "concept_class_id",
                    "domain_id",
                ),
                a,
            )
            lengths = ", ".join(map(str, ATC_LENGTHS))
            groups = (
                f"SELECT concept_id FROM {concept} WHERE concept_id <> 0 "
                f"AND (vocabulary_id = 'ATC' AND length(concept_code) IN ({lengths}) "
                "OR standard_concept = 'S' AND concept_class_id = 'Ingredient' "
                "AND domain_id = 'Drug')"
            )
        else:
            self._need("concept", ("domain_id",), a)
            self._need("concept_ancestor", ("min_levels_of_separation",), a)
            finding = db.links("ancestor_concept_id", lambda: [FINDING])
            vague = " ".join(f"AND concept_name NOT LIKE '{v}'" for v in VAGUE)
            groups = (
                f"SELECT concept_id FROM {concept} JOIN {finding} "
                f"ON concept_id = descendant_concept_id WHERE ancestor_concept_id = {FINDING} "
                "AND (min_levels_of_separation > 2 "
                f"OR descendant_concept_id IN ({_list(HIGH_GROUPS)})) "
                f"AND domain_id = 'Condition' {vague}"
            )
        yield (
            "CREATE OR REPLACE TEMP TABLE of_group AS "
            "SELECT DISTINCT descendant_concept_id AS member, ancestor_concept_id AS heading "
            f"FROM {ancestor} WHERE ancestor_concept_id IN ({groups}) "
            f"{self._allowed('descendant_concept_id')} {self._allowed('ancestor_concept_id')}"
        )
        yield (
            f"INSERT INTO features SELECT DISTINCT g.heading::BIGINT * 1000 + {a.id}, p.row_id, 1 "
            f"{self._joined(a)} JOIN of_group g ON g.member = e.{a.concept} "
            f"WHERE {self._in_window(a, first_day)}"
        )

    def _score(self, a: Analysis) -> Iterator[str]:
        """Insert a comorbidity score."""
        if not self.db.columns("concept_ancestor"):
            return
        if a.id == 902:
            made = self._complications()
            if made is None:
                return
            yield f"CREATE OR REPLACE TEMP TABLE of_score AS {made}"
        else:
            categories = {901: CHARLSON, 903: CHADS2, 904: CHADS2VASC}[a.id]
            yield f"CREATE OR REPLACE TEMP TABLE of_score AS {self._categories(categories)}"
        points = (
            "SELECT p.row_id, s.category, max(s.weight) AS weight "
            f"{self._joined(a)} JOIN of_score s ON s.member = e.{a.concept} "
            f"WHERE e.{a.first}::DATE <= p.start + {self.end} GROUP BY 1, 2"
        )
        age = "(year(p.start) - o.year_of_birth)"
        more = {
            903: f"CASE WHEN {age} >= 75 THEN 1 ELSE 0 END",
            904: f"CASE WHEN {age} >= 75 THEN 2 WHEN {age} >= 65 THEN 1 ELSE 0 END "
            "+ CASE WHEN o.gender_concept_id = 8532 THEN 1 ELSE 0 END",
        }.get(a.id)
        if more:
            points += (
                # One row per person even if the table repeats them, because points are summed.
                f" UNION ALL SELECT p.row_id, -1, {more} FROM people p "
                f"JOIN {distinct_people(self.db, PEOPLE)} o ON o.person_id = p.person_id"
            )
        yield (
            f"INSERT INTO features SELECT {1000 + a.id}, row_id, sum(weight) FROM ({points}) "
            "GROUP BY row_id"
        )

    def _categories(self, categories: Iterable[Category]) -> str:
        """Return SQL of the (category, weight, member concept) rows of a score."""
        categories = list(categories)
        ancestor = self.db.links(
            "ancestor_concept_id",
            lambda: [x for c in categories for x in (*c.ancestors, *c.without)],
        )
        parts = []
        for number, c in enumerate(categories):
            below = f"SELECT descendant_concept_id FROM {ancestor} WHERE ancestor_concept_id IN "
            without = f"EXCEPT {below} ({_list(c.without)})" if c.without else ""
            alone = f"UNION SELECT unnest([{_list(c.alone)}])" if c.alone else ""
            parts.append(
                f"SELECT {number} AS category, {c.weight} AS weight, member FROM "
                f"(({below} ({_list(c.ancestors)}) {without}) {alone}) AS t(member)"
            )
        return " UNION ".join(parts)

    def _complications(self) -> str | None:
        """Select the concepts of diabetes complications by the vocabulary's map from ICD-9-CM."""
        if not {"vocabulary_id", "concept_code"} <= {*self.db.columns("concept")}:
            return None
        if not self.db.columns("concept_relationship"):
            return None
        rows = ", ".join(
            f"('{category}', {points}, '{code}')"
            for category, points, codes in DCSI
            for code in codes.split()
        )
        db = self.db
        icd = db.holding("concept", lambda: RecordsOf("concept", "vocabulary_id", ("ICD9CM",)))

        def listed() -> RecordsOf:
            """Find the concepts of ICD-9-CM codes that begin with one of the category's codes."""
            values = f"SELECT * FROM (VALUES {rows}) AS d(category, points, code)"
            found = db.rows(
                f"SELECT DISTINCT s.concept_id::BIGINT FROM ({values}) d JOIN {icd} s "
                "ON s.vocabulary_id = 'ICD9CM' AND starts_with(s.concept_code, d.code)"
            )
            ids = tuple(sorted(c for (c,) in found))
            return RecordsOf("concept_relationship", "concept_id_1", ids)

        maps = db.holding("concept_relationship", listed)
        concept = db.concepts(lambda: db.recorded_concepts(maps, "concept_id_2"))
        return (
            "SELECT d.category, max(d.points) AS weight, t.concept_id AS member "
            f"FROM (VALUES {rows}) d(category, points, code) "
            f"JOIN {icd} s ON s.vocabulary_id = 'ICD9CM' "
            "AND starts_with(s.concept_code, d.code) "
            f"JOIN {maps} r ON r.concept_id_1 = s.concept_id AND r.relationship_id = 'Maps to' "
            f"JOIN {concept} t ON t.concept_id = r.concept_id_2 "
            "AND t.vocabulary_id = 'SNOMED' GROUP BY 1, 3"
        )

    def _demographic(self, number: int) -> Iterator[str]:
        """Insert a demographic covariate."""
        have = self.db.columns("person")
        age = "year(p.start) - year_of_birth"
        if self.birthdays:
            age = age_sql("born", "p.start")
        value, where = {
            1: ("gender_concept_id::BIGINT", "gender_concept_id <> 0"),
            3: (f"(({age}) // 5)::BIGINT", f"({age}) >= 0"),
            4: ("race_concept_id::BIGINT", self._of_class("race")),
            5: ("ethnicity_concept_id::BIGINT", self._of_class("ethnicity")),
            6: ("year(p.start)::BIGINT", "TRUE"),
            7: ("month(p.start)::BIGINT", "TRUE"),
            11: ("(year(p.start) * 100 + month(p.start))::BIGINT", "TRUE"),
        }[number]
        if (number == 4 and "race_concept_id" not in have) or (
            number == 5 and "ethnicity_concept_id" not in have
        ):
            return
        yield (
            f"INSERT INTO features SELECT DISTINCT {value} * 1000 + {number}, p.row_id, 1 "
            f"FROM people p JOIN {distinct_people(self.db, PEOPLE)} o ON o.person_id = p.person_id "
            f"WHERE {where}"
        )

    def _length(self, number: int) -> str:
        """Insert age in years or days of observation before the start, as a value."""
        periods = joined_periods(self.db, PEOPLE)
        value, source = {
            2: (
                "year(p.start) - min(o.year_of_birth)",
                f"{distinct_people(self.db, PEOPLE)} o ON o.person_id = p.person_id",
            ),
            8: (
                "p.start - min(o.first)",
                f"({periods}) o ON o.person_id = p.person_id "
                "AND p.start BETWEEN o.first AND o.last",
            ),
        }[number]
        return (
            f"INSERT INTO features SELECT {1000 + number}, p.row_id, {value} "
            f"FROM people p JOIN {source} GROUP BY p.row_id, p.start"
        )

    def _of_class(self, name: str) -> str:
        """Return the condition that a race or ethnicity concept belongs to its concept class."""
        if "concept_class_id" not in self.db.columns("concept"):
            return f"{name}_concept_id <> 0"
        db, column = self.db, f"{name}_concept_id"
        concept = db.concepts(lambda: db.recorded_concepts(db.table("person"), column))
        return (
            f"{column} IN (SELECT concept_id FROM {concept} "
            f"WHERE lower(concept_class_id) = '{name}')"
        )

    def _joined(self, a: Analysis) -> str:
        """Join the people with the table of an analysis."""
        return f"FROM people p JOIN {self.db.table(a.table)} e ON e.person_id = p.person_id"

    def _in_window(self, a: Analysis, first_day: int | None) -> str:
        """Return the condition that a record overlaps the window and has a concept."""
        until = f"e.{a.first}::DATE <= p.start + {self.end} AND e.{a.concept} <> 0"
        if first_day is None:
            return until
        last = last_day(f"e.{a.first}", f"e.{a.last}")
        return f"{until} AND {last} >= p.start + {int(first_day)}"

    def _allowed(self, concept: str) -> str:
        """Return the condition that a concept is not excluded and, if required, included."""
        rule = f"AND {concept} NOT IN (SELECT concept_id FROM excluded) "
        if self.only_included:
            rule += f"AND {concept} IN (SELECT concept_id FROM included) "
        return rule

    def _need(self, table: str, columns: tuple[str, ...], a: Analysis) -> None:
        """Raise if a table lacks columns that an analysis requires."""
        have = self.db.columns(table)
        gone = [c for c in columns if c not in have]
        if gone:
            raise DataError(
                f"covariate analysis {a.id} ({a.name}) needs the column {gone[0]} of the table "
                f"{table}, which {self.db.name} lacks; leave the analysis out"
            )


def usable(column: str) -> str:
    """Return SQL of a column's finite numbers; NULL for anything else."""
    number = f"TRY_CAST({column} AS DOUBLE)"
    return f"(CASE WHEN isfinite({number}) AND abs({number}) <= {LARGEST!r} THEN {number} END)"


def unusable(column: str) -> str:
    """Return SQL that is true where a column holds something other than a finite number."""
    return f"({usable(column)} IS NULL AND {column} IS NOT NULL AND trim({column}::VARCHAR) <> '')"


def _list(concepts: Iterable[int]) -> str:
    """Join concept ids with commas."""
    return ", ".join(str(int(c)) for c in concepts)
