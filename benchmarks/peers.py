"""Other programs at the same objective: ``PYTHON peers.py NAME FOLDER OPTIONS``.

Runs in any interpreter that has the peer and NumPy; imports nothing of steropes. Each function
fits −ℓ + λ‖β‖₁ (most programs want −ℓ/n and λ/n) at settings that are meant to reach the
optimum, and returns (β, intercept). ``python peers.py NAME --probe`` says whether it is there.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
import warnings
from pathlib import Path

import numpy as np

PEERS = {
    "adelie": "adelie",
    "skglm": "skglm",
    "scikit-learn": "sklearn",
    "glum": "glum",
    "lifelines": "lifelines",
    "scikit-survival": "sksurv",
}


def adelie(data, o):
    """A warm path of penalties down to λ, as its users run it; its cv_grpnet for folds."""
    import adelie as ad

    n = data["X"].shape[0]
    X = ad.matrix.sparse(data["X"], n_threads=o["n_jobs"])
    if o["family"] == "cox":
        glm = ad.glm.cox(
            start=np.zeros(n), stop=data["time"], status=data["y"], tie_method="breslow"
        )
    else:
        glm = ad.glm.binomial(data["y"])
    common = {"n_threads": o["n_jobs"], "progress_bar": False}
    common |= {"tol": o["peer_tol"], "irls_tol": o["peer_tol"]}
    if o["folds"]:
        for r in range(o["repeats"]):
            result = ad.cv_grpnet(
                X, glm, n_folds=o["folds"], seed=r, lmda_path_size=o["penalties"],
                min_ratio=o["ratio"], early_exit=False, **common,
            )  # fmt: skip
        state = result.fit(X, glm, lmda_path_size=o["penalties"], **common)
    else:
        r = data["y"].mean() - data["y"] if o["family"] == "logistic" else null_residual(data)
        largest = np.abs(data["X"].T @ r).max() / n
        path = np.geomspace(largest, o["lam"] / n, 20)
        state = ad.grpnet(X, glm, lmda_path=path, early_exit=False, **common)
    if o["folds"]:
        o["chosen"] = float(state.lmdas[-1]) * n
    return np.asarray(state.betas[-1].todense()).ravel(), float(state.intercepts[-1])


def null_residual(data):
    """Cox's gradient at β = 0, without ties."""
    by = np.argsort(-data["time"])
    d = data["y"][by]
    H = np.cumsum((d / np.arange(1, len(d) + 1))[::-1])[::-1]
    r = np.empty(len(d))
    r[by] = H - d
    return r


def skglm(data, o):
    """Prox-Newton with working sets."""
    from skglm.datafits import Cox, Logistic
    from skglm.penalties import L1
    from skglm.solvers import ProxNewton
    from skglm.utils.jit_compilation import compiled_clone

    X, n = data["X"], data["X"].shape[0]
    penalty = compiled_clone(L1(o["lam"] / n))
    solver = ProxNewton(tol=1e-9, fit_intercept=o["family"] == "logistic")
    if o["family"] == "cox":
        datafit = compiled_clone(Cox(use_efron=False))
        y = np.column_stack([data["time"], data["y"]])
    else:
        datafit = compiled_clone(Logistic())
        y = np.where(data["y"] > 0, 1.0, -1.0)
    datafit.initialize_sparse(X.data, X.indptr, X.indices, y)
    w = solver.solve(X, y, datafit, penalty)[0]
    return (w[:-1], float(w[-1])) if o["family"] == "logistic" else (w, 0.0)


def scikit_learn(data, o):
    """LIBLINEAR for one fit (its intercept is penalised, so it is a large constant), or CV."""
    from sklearn.linear_model import LogisticRegression, LogisticRegressionCV

    if o["folds"]:
        m = LogisticRegressionCV(
            Cs=np.geomspace(o["ratio"], 1.0, o["variances"]) * o["C"], cv=o["folds"],
            l1_ratios=(1.0,), solver="liblinear", intercept_scaling=1e3, scoring="neg_log_loss",
            n_jobs=o["n_jobs"], use_legacy_attributes=True,
        )  # fmt: skip
    else:
        m = LogisticRegression(
            C=1 / o["lam"], l1_ratio=1.0, solver="liblinear", intercept_scaling=1e3,
            tol=1e-7, max_iter=1000,
        )  # fmt: skip
    m.fit(data["X"], data["y"].astype(int))
    return m.coef_[0], float(m.intercept_[0])


def glum(data, o):
    """IRLS with coordinate descent."""
    from glum import GeneralizedLinearRegressor

    m = GeneralizedLinearRegressor(
        family="binomial", l1_ratio=1.0, alpha=o["lam"] / data["X"].shape[0], gradient_tol=1e-8,
        max_iter=300,
    ).fit(data["X"], data["y"])  # fmt: skip
    return m.coef_, float(m.intercept_)


def lifelines(data, o):
    """Newton on a smoothed absolute value; dense."""
    import pandas as pd
    from lifelines import CoxPHFitter

    X = data["X"].toarray()
    frame = pd.DataFrame(X).assign(T=data["time"], E=data["y"])
    m = CoxPHFitter(penalizer=o["lam"] / len(X), l1_ratio=1.0).fit(frame, "T", "E")
    return m.params_.to_numpy(), 0.0


def scikit_survival(data, o):
    """Coxnet; dense."""
    from sksurv.linear_model import CoxnetSurvivalAnalysis
    from sksurv.util import Surv

    n = len(data["y"])
    y = Surv.from_arrays(data["y"] > 0, data["time"])
    path = np.geomspace(
        max(np.abs(data["X"].T @ null_residual(data)).max(), o["lam"] * 2), o["lam"], 20
    )
    m = CoxnetSurvivalAnalysis(
        alphas=path / n, l1_ratio=1.0, normalize=False, tol=o["peer_tol"], max_iter=10**6
    ).fit(data["X"].toarray(), y)
    return m.coef_[:, -1], 0.0


def main() -> None:
    name = sys.argv[1]
    module = importlib.import_module(PEERS[name])
    version = getattr(module, "__version__", "?")
    if sys.argv[2] == "--probe":
        print(version)
        return
    folder, options = Path(sys.argv[2]), json.loads(sys.argv[3])
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from exchange import load

    data = load(folder)
    fit = globals()[name.replace("-", "_")]
    warnings.simplefilter("ignore")
    if name == "skglm":  # compiled before the clock starts
        rows = np.r_[np.flatnonzero(data["y"])[:50], np.arange(300)]
        X = data["X"].tocsr()[rows][:, :20].tocsc()
        fit({**{k: v[rows] for k, v in data.items() if k != "X"}, "X": X}, options)
    start = time.perf_counter()
    beta, intercept = fit(data, options)
    seconds = time.perf_counter() - start
    np.savez(folder / f"{name}.npz", beta=beta, intercept=intercept)
    report = {"peer": name, "version": version, "seconds": seconds}
    report["lam"] = options.get("chosen") if options["folds"] else options["lam"]
    report["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print("\n" + json.dumps(report))


if __name__ == "__main__":
    main()
