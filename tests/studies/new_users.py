"""New users of two drugs and their covariates, by the steps of a one-question study."""

from dataclasses import dataclass

import pandas as pd

from steropes.designs.covariates.preprocessing import tidy
from steropes.errors import DataError
from steropes.studies import StudySettings
from steropes.studies.one_question.question_analyses import StudyCovariates
from steropes.studies.one_question.question_cohorts import (
    QuestionCohorts,
    emptied_arm,
    make_question_cohorts,
)
from steropes.studies.one_question.study_result_rows import attrition_lines
from steropes.studies.results.comparative_result_rows import outcome_tables
from steropes.studies.specifications.one_question_specification import CRUDE, MAIN, OUTCOME


@dataclass
class NewUsers:
    people: pd.DataFrame
    attrition: pd.DataFrame
    notes: tuple
    cohorts: QuestionCohorts

    def __len__(self):
        return len(self.people)


def analysis(made, number):
    return next(a for a in made.spec.analyses if a.id == number)


def attrition_of(result):
    """The people left, and dropped, by each rule in each arm, from the result tables."""
    tables = outcome_tables(result, "database", with_balance=False)
    rows = pd.DataFrame(tables["cm_attrition"])
    return pd.DataFrame(attrition_lines({"cm_attrition": rows}, CRUDE))


def new_users(db, target=1, comparator=2, outcome=3, **settings):
    """The people whom a study compares, refused if an arm is empty."""
    asked = StudySettings(target, comparator, outcome, **settings)
    made = make_question_cohorts(db, asked)
    (question,) = made.spec.questions
    prepared = made.bench.prepared(question, analysis(made, CRUDE))
    crude = prepared.answer(OUTCOME)
    if reason := emptied_arm(asked, crude):
        raise DataError(reason)
    columns = ["row", "person_id", "treated", "start", "time", "event"]
    people = pd.DataFrame(crude.people)[columns]
    notes = (*made.notes, *prepared.comparison.notes)
    return NewUsers(people, attrition_of(crude), notes, made)


def covariates(db, rows=None, **settings):
    """The covariates of the propensity model, of all new users or of some of them."""
    found = new_users(db, **{"min_people": 1, "min_share": 0.0} | settings)
    (question,) = found.cohorts.spec.questions
    main = analysis(found.cohorts, MAIN)
    features = found.cohorts.bench.features(question, main)
    chosen = found.people["row"].to_numpy()
    features = features.take(chosen if rows is None else chosen[rows])
    return StudyCovariates.of(tidy(features, main.propensity.tidy))


def columns(found):
    """Rows of the people who have each covariate, by domain and concept, or by name."""
    f = found.features
    return {
        key(line): set(f.rows[f.indptr[j] : f.indptr[j + 1]].tolist())
        for j, line in enumerate(found.columns.itertuples())
    }


def key(line):
    concept = line.domain not in ("age", "sex", "index year")
    return f"{line.domain}: {line.concept_id}" if concept else line.name
