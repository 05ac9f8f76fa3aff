"""One steropes fit in a process of its own: ``python -m benchmarks.ours FOLDER OPTIONS``."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from .exchange import load


def model_for(options: dict):
    """The estimator that the options describe."""
    import steropes as st

    kind = {"cox": st.CoxRegression, "logistic": st.LogisticRegression}[options["family"]]
    arguments = {"prior": st.Laplace(2 / options["lam"] ** 2), "tol": options["tol"]}
    if options["family"] == "cox":
        arguments["ties"] = "breslow"
    if options["folds"]:
        arguments["cv"] = st.CrossValidation(
            options["folds"], repeats=options["repeats"], random_state=1
        )
    return kind(n_jobs=options["n_jobs"], **arguments)


def main(folder: Path, options: dict) -> dict:
    """Warm the kernels on a small part, then fit once and say what it took."""
    import steropes as st

    data = load(folder)
    X = sparse.csc_array(data["X"])
    X.data = np.ones(len(X.indices))
    outcome = st.Surv(data["time"], data["y"]) if "time" in data else data["y"].astype(int)
    rows = np.unique(np.r_[np.flatnonzero(data["y"])[:200], np.arange(min(1000, X.shape[0]))])
    small = sparse.csc_array(X.tocsr()[rows]) if options["warm"] else None
    model = model_for(options)
    if options["warm"]:
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model_for({**options, "folds": min(options["folds"], 3), "repeats": 1}).fit(
                small[:, :20], outcome[rows]
            )
    del small
    before = resident()
    start = time.perf_counter()
    model.fit(X, outcome)
    seconds = time.perf_counter() - start
    report = {
        "peer": "steropes",
        "version": st.__version__,
        "seconds": seconds,
        "peak": peak(),
        "before": before,
        "x_bytes": int(X.indices.nbytes + X.indptr.nbytes),
        "optimality": model.optimality_,
        "steps": model.n_iter_,
        "nonzero": int(np.count_nonzero(model.coef_)),
    }
    if options["folds"]:
        report["variances"] = model.cv_results_["variance"].tolist()
        report["chosen"] = model.variance_
    report["lam"] = (2 / model.variance_) ** 0.5 if options["folds"] else options["lam"]
    np.savez(folder / "steropes.npz", beta=model.coef_, intercept=getattr(model, "intercept_", 0.0))
    return report


def peak() -> int:
    """Largest resident size so far, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def resident() -> int:
    """Resident size now, bytes; the peak so far where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return peak()


if __name__ == "__main__":
    print("\n" + json.dumps(main(Path(sys.argv[1]), json.loads(sys.argv[2]))))
