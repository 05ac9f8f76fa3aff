"""Ctrl-C in a long cross-validation: it stops at once, and the process can go on fitting."""

import os
import signal
import subprocess
import sys
import time

import pytest

SCRIPT = """
import sys
import numpy as np
from scipy import sparse
from steropes import CoxRegression, CrossValidation, Laplace, Surv

rng = np.random.default_rng(0)
n = 20_000
X = sparse.csc_array((rng.random((n, 100)) < 0.05).astype(float))
y = Surv(rng.exponential(size=n), rng.integers(0, 2, n))
small = X[:400], y[:400]
before = CoxRegression(prior=Laplace(0.1)).fit(*small).coef_
model = CoxRegression(prior=Laplace(), cv=CrossValidation(10, repeats=200), n_jobs=2)
print("ready", flush=True)
try:
    model.fit(X, y)
    print("never interrupted")
except KeyboardInterrupt:
    after = CoxRegression(prior=Laplace(0.1)).fit(*small).coef_
    print(before.tobytes() == after.tobytes(), hasattr(model, "coef_"), flush=True)
    cv = CrossValidation(3, random_state=0)
    print(CoxRegression(prior=Laplace(), cv=cv).fit(*small).converged_, flush=True)
"""


@pytest.mark.host  # its process fits on the CPU
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupted_cross_validation_leaves_nothing_broken():
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline().strip() == "ready"
        time.sleep(0.5)  # the fit takes minutes
        process.send_signal(signal.SIGINT)
        interrupted = time.monotonic()
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    assert out.split() == ["True", "False", "True"], out + err
    assert time.monotonic() - interrupted < 30
    assert process.returncode == 0
