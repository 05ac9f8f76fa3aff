"""Cumulative probability models: SGEMM data, n = M = 10⁶, and the simulation of the paper.

    python benchmarks/cumulative.py sgemm large simulation     # or some of them

Each part writes a section of results/cumulative.md; "simulation" also draws docs/images.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from steropes.models.cumulative import (
    CumulativeProbabilityModel,
    DivideAndCombine,
    EqualQuantileBins,
    RoundDecimals,
    RoundSignificant,
)

ROOT = Path(__file__).parents[1]
SGEMM = ROOT / ".." / "shared" / "data" / "sgemm_product.csv.gz"
RESULTS = Path(__file__).parent / "results"
PREDICTORS = 50
BETA = np.zeros(PREDICTORS)  # half of them zero, the others from −1 to 1
BETA[::2] = np.linspace(-1, 1, PREDICTORS // 2 + 1)[:-1]
SUBSETS = 48  # of the SGEMM data, of 20,133 or 20,134 rows


def peak() -> float:
    """Peak memory of this process so far, GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def timed(f):
    """Result and wall seconds."""
    start = time.perf_counter()
    out = f()
    return out, time.perf_counter() - start


def clocked(f, times: int = 3):
    """Result, and the best wall time with its processor time, in words."""
    best = (np.inf, np.inf)
    for _ in range(times):
        wall, cpu = time.perf_counter(), time.process_time()
        out = f()
        best = min(best, (time.perf_counter() - wall, time.process_time() - cpu))
    return out, f"{best[0]:.1f} s (processor time {best[1]:.1f} s; best of {times})"


def warm_up() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    CumulativeProbabilityModel().fit(X, X[:, 0] + rng.logistic(size=300)).alpha_summary()


def load_sgemm():
    table = pd.read_csv(SGEMM)
    names = list(table.columns[:14])
    X = np.repeat(table.iloc[:, :14].to_numpy(np.float64), 4, axis=0)
    y = table.iloc[:, 14:].to_numpy(np.float64).ravel()
    return X, y, np.repeat(np.arange(len(table)), 4), names


def sgemm() -> str:
    X, y, setting, names = load_sgemm()
    warm_up()
    before = peak()
    m, fit = clocked(lambda: CumulativeProbabilityModel().fit(X, y), 1)
    memory = peak()

    def errors_of(m):
        m._information = None
        return m.summary(), m.alpha_summary()

    (_, alpha), errors = clocked(lambda: errors_of(m))
    cluster, robust = clocked(lambda: m.vcov(cluster=setting))
    m, fit = clocked(lambda: CumulativeProbabilityModel().fit(X, y), 5)
    lines = [
        "## SGEMM (n = 966,400, M = 106,799, p = 14, logit)\n",
        "| what | figure |\n|---|---|",
        f"| exact fit | {fit}, {m.n_iter_} Newton steps |",
        f"| peak memory after one fit | {memory:.2f} GB (before it, data loaded: {before:.2f}) |",
        f"| negative log-likelihood | {-m.log_likelihood_:,.3f} |",
        f"| certificate | {m.optimality_:.1e} |",
        f"| standard errors of all 14 β and {len(alpha):,} α | {errors} |",
        f"| robust errors clustered by setting (241,600) | {robust} |",
    ]
    fits = {
        "binning": EqualQuantileBins(10_000),
        "decimals": RoundDecimals(10_000),
        "significant": RoundSignificant(10_000),
        "divide": DivideAndCombine(SUBSETS),
    }
    columns = {"exact": m.coef_}
    ses = {"exact": np.sqrt(np.diag(m.vcov()))}
    clustered = np.sqrt(np.diag(cluster))
    how = [f"exact: {fit}"]
    for name, reduction in fits.items():
        model = CumulativeProbabilityModel(reduce=reduction, random_state=1)
        model, seconds = timed(lambda model=model: model.fit(X, y))
        columns[name], ses[name] = model.coef_, np.sqrt(np.diag(model.vcov()))
        how.append(f"{name} ({reduction}): {seconds:.1f} s, {len(model.levels_):,} outcomes")
    lines.append("\n### Estimates (standard errors) by approach, and errors clustered by setting\n")
    lines.append("| predictor | " + " | ".join(columns) + " | clustered SE, exact |")
    lines.append("|---" * (len(columns) + 2) + "|")
    for j, name in enumerate(names):
        cells = [f"{columns[c][j]:.5f} ({ses[c][j]:.5f})" for c in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {clustered[j]:.5f} |")
    lines.append("\n" + "; ".join(how) + ".")
    return "\n".join(lines)


def large() -> str:
    rng = np.random.default_rng(0)
    n, p = 1_000_000, 50
    X = rng.normal(size=(n, p))
    y = np.exp(X @ (0.3 * rng.normal(size=p)) + rng.logistic(size=n))
    warm_up()
    before = peak()
    m, fit = clocked(lambda: CumulativeProbabilityModel().fit(X, y), 1)
    memory = peak()
    _, errors = clocked(lambda: (m.summary(), m.alpha_summary()), 1)
    return "\n".join(
        [
            "## n = M = 1,000,000, p = 50, logit\n",
            "| what | figure |\n|---|---|",
            f"| exact fit | {fit}, {m.n_iter_} Newton steps |",
            f"| peak memory after the fit | {memory:.2f} GB (before it, data made: {before:.2f}) |",
            f"| certificate | {m.optimality_:.1e} |",
            f"| standard errors of all β and {len(m.alpha_):,} α | {errors} |",
            f"| peak memory after those | {peak():.2f} GB |",
        ]
    )


def draw(n: int, error: str, rng) -> tuple[np.ndarray, np.ndarray]:
    """25 normal predictors with means from 0 to 2.4, 25 binary ones with shares from 5 to 50 %."""
    half = PREDICTORS // 2
    normal = rng.normal(np.linspace(0, 2.4, half), size=(n, half))
    X = np.column_stack([normal, rng.random((n, half)) < np.linspace(0.05, 0.5, half)])
    noise = rng.logistic(size=n) if error == "logistic" else rng.gumbel(size=n)
    return X, X @ BETA + noise


def scales(latent: np.ndarray) -> dict[str, tuple]:
    """The outcome on the paper's three scales: how it is made of the latent one, and α(y)."""
    shift = 1.0 - latent.min()
    return {
        "identity": (lambda z: z, lambda y: y),
        "exp": (np.exp, lambda y: np.log(np.maximum(y, 1e-300))),
        "log": (lambda z: np.log(z + shift), lambda y: np.exp(y) - shift),
    }


def approaches(n: int) -> dict[str, object]:
    """With the paper's sizes."""
    target = {10_000: 1_000}.get(n, 10_000)
    subsets = {10_000: 10, 40_000: 40}.get(n, 100)
    return {
        "exact": None,
        "binning": EqualQuantileBins(target),
        "decimals": RoundDecimals(target),
        "significant": RoundSignificant(target),
        "divide": DivideAndCombine(subsets),
    }


def simulation(sizes=((10_000, 20), (40_000, 5), (1_000_000, 1))) -> str:
    rows = []
    for n, repeats in sizes:
        for error in ("logistic", "Gumbel"):
            link = "logit" if error == "logistic" else "loglog"
            for r in range(repeats):
                rng = np.random.default_rng([n, r, error == "Gumbel"])
                X, latent = draw(n, error, rng)
                exact = None
                for name, reduction in approaches(n).items():
                    for scale, (make, alpha) in scales(latent).items():
                        # Only rounding depends on the scale of the outcome.
                        if scale != "identity" and name not in ("decimals", "significant"):
                            continue
                        y = make(latent)
                        m = CumulativeProbabilityModel(link=link, reduce=reduction, random_state=r)
                        m, seconds = timed(lambda m=m, X=X, y=y: m.fit(X, y))
                        se = np.sqrt(np.diag(m.vcov()))
                        exact = (m.coef_, se) if name == "exact" else exact
                        low, high = np.quantile(y, [0.005, 0.995])
                        at = (m.levels_[:-1] >= low) & (m.levels_[:-1] <= high)
                        off = np.abs(m.alpha_ - alpha(m.levels_[:-1]))[at].max()
                        any_scale = name not in ("decimals", "significant")
                        rows.append(
                            {
                                "n": n, "error": error, "approach": name,
                                "scale": "any" if any_scale else scale,
                                "repeat": r, "M": len(m.levels_), "seconds": seconds,
                                "bias": list(m.coef_ - BETA), "se": list(se),
                                "alpha": float(off),
                                "to exact": float(np.abs(m.coef_ - exact[0]).max()),
                                "se ratio": float(np.mean(se / exact[1])),
                            }
                        )  # fmt: skip
                        del m
                print(n, error, r, f"{peak():.2f} GB", flush=True)
                (RESULTS / "cumulative_simulation.json").write_text(json.dumps(rows))
    pictures(rows)
    return simulation_table(rows)


def simulation_table(rows: list[dict]) -> str:
    table = pd.DataFrame(rows)
    lines = [
        "## Simulation (50 predictors; logistic and Gumbel errors; three scales of the outcome)\n",
        "Bias and RMSE over all 50 coefficients and repeats; “along β” is the error's projection "
        "on β, relative to it: above zero, estimates are too far from zero; “to exact” is the "
        "largest difference of a coefficient from the exact fit's; “α” the largest error of α(y) "
        "between the 0.5 and 99.5 percentiles of y, the mean over repeats.\n",
        "| n | errors | approach | scale | M | mean bias | along β | RMSE | mean SE | "
        "SE / exact SE | to exact | α | s |",
        "|---" * 13 + "|",
    ]
    groups = table.groupby(["n", "error", "approach", "scale"], sort=False)
    for (n, error, approach, scale), g in groups:
        bias, se = np.array(g["bias"].tolist()), np.array(g["se"].tolist())
        along = 100 * (bias @ BETA).mean() / (BETA @ BETA)
        lines.append(
            f"| {n:,} | {error} | {approach} | {scale} | {int(g['M'].median()):,} | "
            f"{bias.mean():+.5f} | {along:+.2f} % | "
            f"{np.sqrt((bias**2).mean()):.5f} | {se.mean():.5f} | "
            f"{g['se ratio'].mean():.4f} | {g['to exact'].max():.2g} | {g['alpha'].mean():.2f} | "
            f"{g['seconds'].median():.2f} |"
        )
    counts = table.groupby("n")["repeat"].nunique()
    lines.append("\nRepeats: " + ", ".join(f"{k:,}: {v}" for k, v in counts.items()) + ".")
    return "\n".join(lines)


def pictures(rows: list[dict]) -> None:
    """Figures for the docs: bias, standard errors, and α against the truth."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    images = ROOT / "docs" / "images"
    images.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(rows)
    table["label"] = [
        a if s == "any" else f"{a}, {s}"
        for a, s in zip(table["approach"], table["scale"], strict=True)
    ]
    labels = list(dict.fromkeys(table["label"]))
    sizes = sorted(table["n"].unique())
    for what, name, title in (
        ("bias", "cumulative-bias", "error of β̂ (all 50 coefficients)"),
        ("se", "cumulative-se", "model-based standard error of β̂"),
    ):
        figure, axes = pyplot.subplots(2, len(sizes), figsize=(3.2 * len(sizes), 5), sharex=True)
        for i, error in enumerate(("logistic", "Gumbel")):
            for j, n in enumerate(sizes):
                part = table[(table["n"] == n) & (table["error"] == error)]
                values = [np.concatenate(part[part["label"] == x][what].tolist()) for x in labels]
                ax = axes[i, j]
                ax.boxplot(values, showfliers=False, widths=0.6, medianprops={"color": "C1"})
                ax.set_title(f"n = {n:,}, {error}", fontsize=8)
                ax.set_xticks(range(1, len(labels) + 1), labels, rotation=90, fontsize=7)
                ax.tick_params(axis="y", labelsize=7)
                if what == "bias":
                    ax.axhline(0, color="gray", linewidth=0.6)
        figure.suptitle(title, fontsize=9)
        figure.tight_layout()
        figure.savefig(images / f"{name}.png", dpi=80)
        pyplot.close(figure)
    n = 10_000
    X, latent = draw(n, "logistic", np.random.default_rng(0))
    y = np.exp(latent)
    figure, axes = pyplot.subplots(1, 5, figsize=(12, 2.8), sharey=True)
    for ax, (name, reduction) in zip(axes, approaches(n).items(), strict=True):
        m = CumulativeProbabilityModel(reduce=reduction, random_state=0).fit(X, y)
        m.checks.plot_alpha(ax, scale="log")
        ax.set_title(name, fontsize=8)
        ax.tick_params(labelsize=7)
    figure.tight_layout()
    figure.savefig(images / "cumulative-alpha.png", dpi=80)
    pyplot.close(figure)


def save(name: str, text: str) -> None:
    """Replace one section of the results page."""
    path = RESULTS / "cumulative.md"
    head = "# Cumulative probability models\n\nMade by `benchmarks/cumulative.py` on 2 cores.\n"
    old = path.read_text() if path.exists() else head
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    section = f"{begin}{text}\n{end}"
    if begin in old:
        a, b = old.index(begin), old.index(end) + len(end)
        old = old[:a] + section + old[b:]
    else:
        old = old.rstrip("\n") + "\n\n" + section
    path.write_text(old)


def main() -> None:
    parts = {"sgemm": sgemm, "large": large, "simulation": simulation}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="+", choices=[*parts])
    RESULTS.mkdir(exist_ok=True)
    for name in parser.parse_args().parts:
        if name == "sgemm" and not SGEMM.exists():
            sys.exit(f"{SGEMM} is absent: this part needs the SGEMM data.")
        text = parts[name]()
        save(name, text)
        print(text)


if __name__ == "__main__":
    main()
