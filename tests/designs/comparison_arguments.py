"""Arguments of comparisons of the data of LaLonde, and one line of their results."""

COVARIATES = ["age", "educ", "race", "married", "nodegree", "re74", "re75"]


NAMES = {"treatment": "treat", "outcome": "re78", "covariates": COVARIATES}


def only(found, method, measure, scale="marginal"):
    """Return the estimate and the error of one effect."""
    rows = found.effects
    keys = zip(("method", "measure", "scale"), (method, measure, scale), strict=True)
    for column, value in keys:
        rows = rows[rows[column] == value]
    (row,) = rows.itertuples()
    return row.estimate, row.se
