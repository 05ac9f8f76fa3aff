"""Formula models that are refitted, effects in parts of the rows, and nomograms, in plain NumPy."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score

import steropes

__all__ = ["differs", "formula_refits", "maximum", "nomogram", "subset_effects"]

CLASSES = {
    "linear": steropes.LinearRegression,
    "logistic": steropes.LogisticRegression,
    "poisson": steropes.PoissonRegression,
}
LEVELS = ("low", "mid", "high")  # sorted: high, low, mid


def maximum(D, y, family, ridge=0.0, w=None):
    """Coefficients at the maximum by Newton's method; the first column is a free intercept."""
    w = np.ones(len(y)) if w is None else w
    b, free = np.zeros(D.shape[1]), np.arange(D.shape[1]) > 0
    if family == "poisson":
        b[0] = np.log(np.average(y, weights=w))

    def objective(b):
        eta = D @ b
        loss = {
            "linear": lambda: 0.5 * (y - eta) ** 2,
            "logistic": lambda: np.logaddexp(0, eta) - y * eta,
            "poisson": lambda: np.exp(np.minimum(eta, 300)) - y * eta,
        }[family]()
        return w @ loss + 0.5 * ridge * np.sum(b[free] ** 2)

    for _ in range(100):
        eta = D @ b
        mean = {"linear": eta, "logistic": 1 / (1 + np.exp(-eta)), "poisson": np.exp(eta)}[family]
        v = {"linear": np.ones(len(y)), "logistic": mean * (1 - mean), "poisson": mean}[family]
        H = (D * (w * v)[:, None]).T @ D + ridge * np.diag(free * 1.0)
        step = np.linalg.solve(H, D.T @ (w * (y - mean)) - ridge * free * b)
        size = 1.0
        while objective(b + size * step) > objective(b) + 1e-12 * abs(objective(b)) and size > 1e-8:
            size /= 2
        b = b + size * step
        if np.abs(step).max() < 1e-12:
            break
    return b, H


def differs(ours, theirs, tolerance=1e-6):
    """Largest difference in units of 1 + |theirs| if it is beyond the tolerance, otherwise 0."""
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    if ours.shape != theirs.shape:
        return np.inf
    both = np.isnan(ours) & np.isnan(theirs)
    off = np.where(both, 0.0, abs(ours - theirs) / (1 + abs(theirs)))
    worst = float(np.nan_to_num(off, nan=np.inf).max(initial=0.0))
    return worst if worst > tolerance else 0.0


def _people(rng, n):
    return pd.DataFrame({
        "x": rng.normal(size=n), "g": rng.choice(LEVELS, n), "arm": rng.choice(["p", "q"], n),
        "u": rng.integers(0, 4, n) * 1.0,
    })  # fmt: skip


def _design(df, terms):
    """Columns of the terms by hand, after an intercept; the first label in order is left out."""
    g = {level: (df["g"] == level).to_numpy(float) for level in sorted(LEVELS)[1:]}
    q, x, u = (df["arm"] == "q").to_numpy(float), df["x"].to_numpy(), df["u"].to_numpy()
    columns = {
        "x": [x], "u": [u], "arm": [q], "g": list(g.values()), "I(x**2)": [x**2],
        "x:arm": [x * q], "x:g": [x * c for c in g.values()],
    }  # fmt: skip
    return np.column_stack([np.ones(len(df)), *(c for term in terms for c in columns[term])])


def _draw(rng, families):
    """A table, a model's formula and the same terms by hand."""
    family = str(rng.choice(families))
    n = int(rng.integers(90, 160))
    df = _people(rng, n)
    terms = ["x"]
    terms += [t for t in ("g", "arm", "u", "I(x**2)") if rng.random() < 0.6]
    terms += [f"x:{t}" for t in ("arm", "g") if t in terms and rng.random() < 0.4]
    D = _design(df, terms)
    eta = D @ (rng.normal(size=D.shape[1]) * 0.4)
    df["y"] = {
        "linear": lambda: eta + rng.normal(size=n),
        "logistic": lambda: (rng.random(n) < 1 / (1 + np.exp(-eta))) * 1.0,
        "poisson": lambda: rng.poisson(np.exp(np.clip(eta, -3, 2))) * 1.0,
    }[family]()
    ridge = float(rng.choice([0.0, 0.5, 5.0]))
    prior = steropes.Normal(1 / ridge) if ridge else None
    model = CLASSES[family](formula="y ~ " + " + ".join(terms), prior=prior, n_jobs=1)
    return family, df, terms, D, ridge, model


def _coefficients(model):
    return np.append(model.intercept_, model.coef_)


def formula_refits(rng, wrong):
    """A formula model through every function that fits a copy of it."""
    family, df, terms, D, ridge, model = _draw(rng, ["linear", "logistic", "poisson"])
    y, n = df["y"].to_numpy(), len(df)
    expected = maximum(D, y, family, ridge)[0]
    model.fit(df)
    order = _order(model, terms)
    if off := differs(_coefficients(model)[order], expected):
        wrong(f"fit: {off:.1e}")
    if off := differs(_coefficients(clone(model).fit(df))[order], expected):
        wrong(f"clone: {off:.1e}")
    labels = np.arange(n) % 3
    parts = [(np.flatnonzero(labels != k), np.flatnonzero(labels == k)) for k in range(3)]
    left_out = [maximum(D[a], y[a], family, ridge)[0] for a, _ in parts]
    scores = cross_val_score(clone(model), df, df["y"], cv=parts)
    if family == "logistic":
        own = [np.mean((D[b] @ c > 0) == y[b]) for (_, b), c in zip(parts, left_out, strict=True)]
    elif family == "linear":
        own = [
            1 - np.sum((y[b] - D[b] @ c) ** 2) / np.sum((y[b] - y[b].mean()) ** 2)
            for (_, b), c in zip(parts, left_out, strict=True)
        ]
    else:
        own = scores  # its score is compared elsewhere
    if off := differs(scores, own):
        wrong(f"cross_val_score: {off:.1e}")
    groups = steropes.validate_by_group(clone(model), df, groups=labels)
    if family == "logistic":
        own = [roc_auc_score(y[b], D[b] @ c) for (_, b), c in zip(parts, left_out, strict=True)]
        if off := differs(groups["auc"], own):
            wrong(f"validate_by_group: {off:.1e}")
    many = steropes.fit_many(clone(model), df, {"first": df["y"], "second": y[::-1].copy()})
    for name, values in (("first", y), ("second", y[::-1])):
        ours = many.loc[many["outcome"] == name, "coef"].to_numpy()[order]
        if off := differs(ours, maximum(D, values, family, ridge)[0]):
            wrong(f"fit_many, {name}: {off:.1e}")
    path = clone(model).set_params(prior=steropes.Normal())
    path = steropes.coefficient_path(path, df, variances=[0.1, 10.0])
    for variance, row in zip(path.index, path.to_numpy(), strict=True):
        if off := differs(row[np.array(order[1:]) - 1], maximum(D, y, family, 1 / variance)[0][1:]):
            wrong(f"coefficient_path at {variance:g}: {off:.1e}")
    return f"{family} {model.formula} n={n} ridge={ridge}"


def _order(model, terms):
    """Positions in the model's coefficients of those by hand."""
    names = list(model.coef_names_)
    blocks = {
        "g": ["g[T.low]", "g[T.mid]"], "arm": ["arm[T.q]"], "x:arm": ["x:arm[T.q]"],
        "x:g": ["x:g[T.low]", "x:g[T.mid]"],
    }  # fmt: skip
    byhand = [name for term in terms for name in blocks.get(term, [term])]
    alike = {name.replace(" ", ""): k for k, name in enumerate(names)}
    return [0, *(1 + alike[name] for name in byhand)]


def subset_effects(rng, wrong):
    """Average effects and predictions of a part of the rows, which may lack labels or vary less."""
    family, df, terms, D, ridge, model = _draw(rng, ["logistic", "poisson"])
    y = df["y"].to_numpy()
    b, H = maximum(D, y, family, ridge)
    C = np.linalg.inv(H)
    model.fit(df)
    kind = str(rng.choice(["arm", "label", "two values", "few", "one row"]))
    some = {
        "arm": df["arm"] == "q", "label": df["g"] == "mid", "two values": df["u"] <= 1,
        "few": np.arange(len(df)) < 7, "one row": np.arange(len(df)) == 3,
    }[kind]  # fmt: skip
    part = df[some].drop(columns="y")
    found = model.effects.average(part)

    def mean(eta):
        return 1 / (1 + np.exp(-eta)) if family == "logistic" else np.exp(eta)

    def change(table):
        """Average of predictions, and its gradient in the coefficients."""
        M = _design(table, terms)
        m = mean(M @ b)
        slope = m * (1 - m) if family == "logistic" else m
        return m.mean(), (M * slope[:, None]).mean(axis=0)

    def contrast(one, other, divide=1.0):
        (a, ga), (c, gc) = change(one), change(other)
        g = (ga - gc) / divide
        return (a - c) / divide, np.sqrt(g @ C @ g)

    expected = {}
    if "arm" in terms:
        expected["arm[q]"] = contrast(part.assign(arm="q"), part.assign(arm="p"))
    if "g" in terms:
        for level in ("low", "mid"):
            expected[f"g[{level}]"] = contrast(part.assign(g=level), part.assign(g="high"))
    h = 1e-5
    for name in ("x", "u"):
        if name in terms:
            up, down = part.assign(**{name: part[name] + h}), part.assign(**{name: part[name] - h})
            expected[name] = contrast(up, down, 2 * h)
    if set(found.index) != set(expected):
        wrong(f"effects of {sorted(map(str, found.index))}, expected {sorted(expected)}")
    for name in set(found.index) & set(expected):
        if off := differs(found.loc[name, ["effect", "se"]], expected[name], 1e-5):
            wrong(f"average effect of {name} in rows of {kind}: {off:.1e}")
    table, M = model.effects.predictions(part, "response"), _design(part, terms)
    m = mean(M @ b)
    if off := differs(table["estimate"], m):
        wrong(f"predictions in rows of {kind}: {off:.1e}")
    eta = model.effects.predictions(part)
    if off := differs(eta[["estimate", "se"]], np.array([M @ b, np.sqrt(((M @ C) * M).sum(1))]).T):
        wrong(f"errors of predictions in rows of {kind}: {off:.1e}")
    return f"{family} {model.formula} rows={kind} ridge={ridge}"


def nomogram(rng, wrong):
    """The risk that is read from a nomogram is that of the model."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n = int(rng.integers(120, 250))
    df = _people(rng, n)
    terms = ["x", *(t for t in ("g", "arm", "u", "I(x**2)") if rng.random() < 0.6)]
    eta = _design(df, terms) @ (rng.normal(size=_design(df, terms).shape[1]) * 0.5)
    cox = rng.random() < 0.5
    if cox:
        df["t"], df["d"] = rng.exponential(np.exp(-eta)) + 0.01, rng.integers(0, 2, n)
        model = steropes.CoxRegression.from_formula("Surv(t, d) ~ " + " + ".join(terms), df)
        time = float(df["t"].median())
    else:
        df["y"] = (rng.random(n) < 1 / (1 + np.exp(-eta))) * 1.0
        model = steropes.LogisticRegression.from_formula("y ~ " + " + ".join(terms), df)
        time = None
    ax = steropes.plots.nomogram(model, time=time)
    scales = _scales(ax)
    plt.close(ax.figure)
    variables = [v for v in ("x", "g", "arm", "u") if v in terms]
    if not {*variables, "Total points"} <= set(scales):
        missing = {*variables, "Total points"} - set(scales)
        wrong(f"scales without {sorted(missing)}")
        return ""
    total_scale = scales["Total points"]
    marks = np.array([float(text) for text in total_scale])
    unit = np.polyfit(marks, list(total_scale.values()), 1)[0] if len(marks) > 1 else np.nan
    (risk_name,) = [name for name in scales if name.startswith("Risk")]
    for _ in range(5):
        person = {v: str(rng.choice(list(scales[v]))) for v in variables}
        points = sum(scales[v][person[v]] for v in variables)
        row = df.iloc[[0]].assign(**{
            v: (value if v in ("g", "arm") else float(value)) for v, value in person.items()
        })  # fmt: skip
        p = 1 - model.predict_survival(row, [time])[0, 0] if cox else model.predict_proba(row)[0, 1]
        # Risks are on the scale of the linear predictor, on which points are linear.
        on_scale = scales[risk_name]
        risks = np.array([float(text) for text in on_scale])
        link = (lambda r: np.log(-np.log1p(-r))) if cox else (lambda r: np.log(r / (1 - r)))
        if len(risks) > 1:
            a, c = np.polyfit(link(risks), list(on_scale.values()), 1)
            if differs(a * link(p) + c, points * unit):
                wrong(f"{person}: points {points:.4f}, of the risk {(a * link(p) + c) / unit:.4f}")
    return f"{'cox' if cox else 'logistic'} terms={terms} n={n}"


def _scales(ax):
    """Positions of the labels of each scale, by the row of its name."""
    names = {
        round(t.get_position()[1]): t.get_text() for t in ax.texts if t.get_position()[0] == -4
    }
    out = {name: {} for name in names.values()}
    for t in ax.texts:
        x, y = t.get_position()
        if x != -4:
            out[names[round(y)]][t.get_text()] = x
    return out
