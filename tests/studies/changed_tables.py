"""A study of one question with other numbers in its exact tables."""

import dataclasses
import math

from steropes.studies.specifications.one_question_specification import MAIN, MATCHED

EFFECT = ("rr", "ci_95_lb", "ci_95_ub", "p", "log_rr", "se_log_rr")


def changed(study, table, analyses=None, **columns):
    """The study with other values in columns of a table, for all or for some analyses."""
    rows = study.exact[table].copy()
    of = rows.index if analyses is None else rows.index[rows["analysis_id"].isin(analyses)]
    for name, value in columns.items():
        rows.loc[of, name] = value
    return dataclasses.replace(study, exact={**study.exact, table: rows})


def with_ratio(study, ratio, lower, upper, analyses=(MAIN, MATCHED)):
    """The study with other hazard ratios."""
    numbers = {"rr": ratio, "ci_95_lb": lower, "ci_95_ub": upper, "log_rr": math.log(ratio)}
    return changed(study, "cm_result", analyses, **numbers)


def without_estimate(study, why, analyses):
    """The study without estimates of some analyses, with the reason."""
    study = changed(study, "cm_result", analyses, **dict.fromkeys(EFFECT, math.nan))
    return changed(study, "note", analyses, note=why)
