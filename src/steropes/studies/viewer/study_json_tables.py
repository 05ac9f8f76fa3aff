"""Tables of a one-question study, from the released file ``study.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from steropes.designs.values.arm_names import ARMS
from steropes.errors import DataError
from steropes.studies.diagnostics.diagnostic_catalogue import COMPARATIVE
from steropes.studies.diagnostics.failing_diagnostics import with_names
from steropes.studies.formatting.released_numbers import analysis_name
from steropes.studies.result_files.hashed_ids import hashed_id

__all__ = ["STUDY_FILE", "study_file_tables"]

STUDY_FILE = "study.json"
MAIN = "matched, stratified"  # The analysis that the diagnostics judge.
# Columns of the balance of a covariate in the file, with their names in result tables.
BALANCE = {f"{arm}_{w}": f"{arm}_mean_{w}" for arm in ARMS for w in ("before", "after")}
BALANCE |= {f"smd_{w}": f"std_diff_{w}" for w in ("before", "after")}
# The analysis of which each line of incidence and follow-up counts the people.
COUNTED = {"all": "crude", "matched": "matched"}
QUANTILES = {"p10": "p_10", "p25": "p_25", "p50": "median", "p75": "p_75", "p90": "p_90"}


def study_file_tables(path: Path) -> dict[str, pd.DataFrame]:
    """Read the file of a study as result tables of comparative studies.

    Raises
    ------
    DataError
        The file is not the file of a study.
    """
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
        return _StudyFile(numbers).tables()
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path} is not the file of a study: {error!r}") from None


class _StudyFile:
    """The numbers of a study, which the methods arrange as tables."""

    def __init__(self, numbers: dict[str, Any]) -> None:
        self.numbers, settings = numbers, numbers["settings"]
        self.ids = {name: int(settings[name]) for name in (*ARMS, "outcome")}
        self.comparison = hashed_id(self.ids["target"], self.ids["comparator"], None)
        lines = [*numbers["hazard_ratios"], *numbers["other_adjustments"]]
        self.analyses = {line["analysis"]: n + 1 for n, line in enumerate(lines)}
        self.lines = lines
        self.database = {"database_id": str(numbers["database"])}
        self.main = self.analyses.get(MAIN, 1)
        named = [line for line in numbers.get("outcomes", ()) if line["outcome"] != self.name]
        # Further outcomes have names and no ids in the file; the first one is numbered -1.
        self.further = {-n: line for n, line in enumerate(named, 1)}

    @property
    def name(self) -> str:
        """The name of the outcome of the question."""
        return str(self.numbers["names"]["outcome"])

    @property
    def definition(self) -> str:
        """The settings of all analyses, which are Cox models."""
        return json.dumps({**self.numbers["settings"], "outcome_model": {"kind": "cox"}})

    @property
    def passes(self) -> bool:
        """Whether the question passes all diagnostics that decide on showing it."""
        checks = self.numbers["diagnostics"]
        failing = any(check["hides"] and check["verdict"] == "FAIL" for check in checks)
        return not (self.numbers["blinded"] or failing)

    def _note(self, line: dict[str, Any]) -> str:
        """Return the note of an analysis, with the names of the diagnostics that hide it."""
        checks = self.numbers["diagnostics"]
        failed = [c.get("name", c["key"]) for c in checks if c["hides"] and c["verdict"] == "FAIL"]
        return with_names(line["note"], ", ".join(failed))

    def key(self, analysis: int, outcome: bool = True) -> dict[str, Any]:
        """Return the columns that identify a result."""
        found = {"target_comparator_id": self.comparison, "analysis_id": analysis, **self.database}
        return {**found, "outcome_id": self.ids["outcome"]} if outcome else found

    def tables(self) -> dict[str, pd.DataFrame]:
        """Return all tables that have rows."""
        rows = {
            "cohort": self._cohorts(),
            "database": [{**self.database, **self.numbers["source"]}],
            "cm_target_comparator": [
                {"target_comparator_id": self.comparison}
                | {f"{arm}_id": self.ids[arm] for arm in ARMS}
            ],
            "cm_target_comparator_outcome": [
                {"outcome_of_interest": 1, **self.key(0), "true_effect_size": None},
                *self._controls(),
            ],
            "cm_analysis": [
                {
                    "analysis_id": n,
                    "description": analysis_name(name),
                    "definition": self.definition,
                }
                for name, n in self.analyses.items()
            ],
            "cm_result": [
                *(self._result(line) for line in self.lines),
                *(self._further(i, line) for i, line in self.further.items()),
            ],
            "cm_diagnostics_summary": self._diagnostics(),
            "further_diagnostic": self._further_diagnostics(),
            "note": [
                *(
                    {**self.key(self.analyses[line["analysis"]]), "note": self._note(line)}
                    for line in self.lines
                ),
                *(
                    {**self.key(self.main), "outcome_id": i, "note": line["note"]}
                    for i, line in self.further.items()
                ),
            ],
            "cm_attrition": self._attrition(),
            "data_note": self._notes(),
            **self._balance(),
            **self._scores(),
            "cm_follow_up_dist": self._follow_up(),
            **self._curves(),
        }
        return {name: _frame(found) for name, found in rows.items() if found}

    def _cohorts(self) -> list[dict[str, Any]]:
        """Return the names of the cohorts."""
        names = self.numbers["names"]
        own = [{"cohort_id": i, "name": names[name]} for name, i in self.ids.items()]
        return own + [{"cohort_id": i, "name": of["outcome"]} for i, of in self.further.items()]

    def _controls(self) -> list[dict[str, Any]]:
        """Return the roles of the further outcomes."""
        return [
            {
                **self.key(0),
                "outcome_id": i,
                "outcome_of_interest": int(line["role"] == "outcome"),
                "true_effect_size": None if line["role"] == "outcome" else 1.0,
            }
            for i, line in self.further.items()
        ]

    def _further(self, outcome: int, line: dict[str, Any]) -> dict[str, Any]:
        """Return the estimate of a further outcome by the main analysis."""
        names = {"hr": "rr", "lower": "ci_95_lb", "upper": "ci_95_ub", "p": "p"}
        effect = {new: line[old] for old, new in names.items()}
        calibrated = {f"calibrated_{new}": line[f"calibrated_{old}"] for old, new in names.items()}
        counts = {
            f"{arm}_{c}": _count(line[f"{arm}_{c}"])
            for c in ("subjects", "outcomes")
            for arm in ARMS
        }
        return {**self.key(self.main), "outcome_id": outcome, **effect, **calibrated, **counts}

    def _result(self, line: dict[str, Any]) -> dict[str, Any]:
        """Return an estimate with the people of its arms."""
        found: dict[str, Any] = {
            "rr": line["hr"],
            "ci_95_lb": line["lower"],
            "ci_95_ub": line["upper"],
            "p": line["p"],
            "log_rr": line.get("log_hr"),
            "se_log_rr": line.get("se"),
            "target_estimator": line["estimand"],
        }
        for of in self.numbers["rates"]:
            if COUNTED.get(of["analysis"]) == line["analysis"]:
                found[f"{of['arm']}_subjects"] = _count(of["people"])
                found[f"{of['arm']}_outcomes"] = _count(of["events"])
        return {**self.key(self.analyses[line["analysis"]]), **found}

    def _diagnostics(self) -> list[dict[str, Any]]:
        """Return the diagnostics for the main analysis, whose verdicts hold for all."""
        rows: list[dict[str, Any]] = [
            {**self.key(n), "unblind": int(self.passes), "unblind_for_evidence_synthesis": 0}
            for n in self.analyses.values()
        ]
        judged = {d.key: d for d in COMPARATIVE}
        for found in self.numbers["diagnostics"]:
            declared = judged.get(found["key"])
            if declared is None:
                continue
            for row in rows:
                if row["analysis_id"] == self.main:
                    row[declared.verdict_column] = found["verdict"]
                    if declared.column and not isinstance(found["value"], str | bool):
                        row[declared.column] = found["value"]
        for i, line in self.further.items():
            flags = {"unblind": int(line["passes"]), "unblind_for_evidence_synthesis": 0}
            rows.append({**self.key(self.main), "outcome_id": i, **flags})
        return rows

    def _further_diagnostics(self) -> list[dict[str, Any]]:
        """Return the diagnostics that the study added, for the main analysis."""
        known = {d.key for d in COMPARATIVE}
        return [
            {
                **self.key(self.main),
                "diagnostic": str(found["key"]),
                "value": None if isinstance(found["value"], str | bool) else found["value"],
                "verdict": found["verdict"],
            }
            for found in self.numbers["diagnostics"]
            if found["key"] not in known
        ]

    def _attrition(self) -> list[dict[str, Any]]:
        """Return the people whom each rule leaves."""
        return [
            {
                **self.key(self.main),
                "exposure_id": self.ids[arm],
                "sequence_number": n + 1,
                "description": line["rule"],
                "subjects": _count(line[arm]),
            }
            for arm in ARMS
            for n, line in enumerate(self.numbers["attrition"])
        ]

    def _notes(self) -> list[dict[str, Any]]:
        """Return the notes on the data; their texts include the counts."""
        return [
            {**self.key(self.main), "note": note["note"], "warning": int(bool(note.get("warning")))}
            for note in self.numbers["data_notes"]
        ]

    def _balance(self) -> dict[str, list[dict[str, Any]]]:
        """Return the balance of the covariates, with running numbers and names."""
        covariates = self.numbers["balance"]["covariates"] if self.numbers["balance"] else []
        key = self.key(self.main, outcome=False)
        numbered = list(enumerate(covariates, 1))
        named = [(n, line["covariate"]) for n, line in numbered]
        model = self.numbers["propensity"]
        coefficients = model["coefficients"] if model else []
        ids = {name: n for n, name in named} | {"intercept": 0}
        for line in coefficients:
            ids.setdefault(line["name"], len(ids))
        return {
            "cm_covariate": [
                {"covariate_id": n, "covariate_name": name, "analysis_id": self.main}
                | self.database
                for name, n in ids.items()
            ],
            "cm_shared_covariate_balance": [
                {
                    **key,
                    "covariate_id": n,
                    **{new: _share(line[old]) for old, new in BALANCE.items()},
                }
                for n, line in numbered
            ],
            "cm_propensity_model": [
                {**key, "covariate_id": ids[line["name"]], "coefficient": line["coef"]}
                for line in coefficients
            ],
        }

    def _scores(self) -> dict[str, list[dict[str, Any]]]:
        """Return the densities of the preference score before and after matching."""
        if not self.numbers["propensity"]:
            return {}
        found, key = self.numbers["propensity"]["preference"], self.key(self.main, outcome=False)
        tables = {"before": "cm_preference_score_dist", "after": "preference_score_after"}
        return {
            table: [
                {**key, "preference_score": x, "target_density": a, "comparator_density": b}
                for x, a, b in zip(
                    found["score"], found[f"target_{w}"], found[f"comparator_{w}"], strict=False
                )
            ]
            for w, table in tables.items()
        }

    def _follow_up(self) -> list[dict[str, Any]]:
        """Return the quantiles of the days of both arms, for each group of people."""
        rows: dict[str, dict[str, Any]] = {}
        for line in self.numbers.get("follow_up", ()):
            of = COUNTED[line["analysis"]]
            row = rows.setdefault(of, self.key(self.analyses[of]))
            row |= {f"{line['arm']}_{new}_days": line[old] for old, new in QUANTILES.items()}
        return [*rows.values()]

    def _curves(self) -> dict[str, list[dict[str, Any]]]:
        """Return the survival curves of both arms, from one and up to their last steps."""
        rows: dict[int, dict[str, Any]] = {}
        steps: dict[str, dict[int, list[float]]] = {}
        for arm, curve in self.numbers["survival"].items():
            values = zip(curve["survival"], curve["lower"], curve["upper"], strict=True)
            own = {int(day): [*of] for day, of in zip(curve["time"], values, strict=True)}
            steps[arm] = {0: [1.0] * 3, **own} if own else {}
            rows |= {day: {} for day in steps[arm] if day not in rows}
            at_risk = curve["at_risk"]
            for day, people in zip(at_risk["time"], at_risk["people"], strict=True):
                rows.setdefault(int(day), {})[f"{arm}_at_risk"] = _count(people)
        for arm, of_arm in steps.items():
            names = [f"{arm}_survival{end}" for end in ("", "_lb", "_ub")]
            for day in [d for d in rows if d <= max(of_arm, default=-1)]:
                last = of_arm[max(d for d in of_arm if d <= day)]
                rows[day] |= dict(zip(names, last, strict=True))
        found = [{**self.key(self.main), "time_day": day, **rows[day]} for day in sorted(rows)]
        return {"cm_kaplan_meier_dist": found}


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Make a table of rows, in which columns without any value are missing numbers."""
    table = pd.DataFrame(rows)
    empty = table.columns[table.isna().all()]
    return table.astype(dict.fromkeys(empty, float))


def _share(value: Any) -> float | None:
    """Read a released share as result tables have it; bounds below which it lies are negative."""
    return None if isinstance(value, str) and value.startswith(">") else _count(value)


def _count(value: Any) -> float | None:
    """Read a released count: a number, a text such as "<5", or nothing."""
    if not isinstance(value, str):
        return value
    limit = float(value.lstrip("<>").replace(",", ""))
    return -limit if value.startswith("<") else limit
