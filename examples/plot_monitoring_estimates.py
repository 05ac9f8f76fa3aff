"""
Monitoring estimates as data accrue, calibrated by negative controls
====================================================================

A study is repeated with every new release of a database. Testing each time at 5 % gives false
signals, and with systematic error more of them the more data there are. The bounds here keep the
error over all looks and include the systematic error of negative controls.
"""

# %%
# Simulated estimates of six looks: fifty negative controls with a systematic error of about 20 %,
# one outcome that the drug causes, and one that it does not cause.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from steropes.designs.surveillance import monitor_estimates

rng = np.random.default_rng(9)
names = ["harmed", "not harmed", *(f"control {k}" for k in range(50))]
effect = np.array([np.log(2), 0.0, *np.zeros(50)])
bias = np.array([0.25, 0.45, *rng.normal(0.2, 0.15, 50)])
information = np.array([8.0, 16, 24, 32, 40, 48])  # the inverse of the squared standard error
steps = np.diff(information, prepend=0)
score = (effect + bias)[:, None] * steps + rng.normal(size=(52, 6)) * np.sqrt(steps)
estimates = pd.DataFrame(
    {
        "outcome": np.repeat(names, 6),
        "look": np.tile(np.arange(1, 7), 52),
        "log_rr": (score.cumsum(axis=1) / information).ravel(),
        "se": np.tile(1 / np.sqrt(information), 52),
        "control": np.repeat(np.arange(52) > 1, 6),
    }
)

# %%
# Without the controls, as many tests do it, the outcome that is not harmed becomes a signal.

plain = monitor_estimates(estimates[~estimates["control"]], looks=6, by=["outcome"])
calibrated = monitor_estimates(estimates, looks=6, by=["outcome"])
columns = ["outcome", "look", "z", "bound", "signal"]
both = plain[columns].merge(calibrated[columns], on=["outcome", "look", "z"])
both.rename(columns=lambda name: name.replace("_x", "").replace("_y", " calibrated")).round(2)

# %%
# The calibrated bound rises with the data, because systematic error does not vanish.

fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True, layout="constrained")
for ax, name in zip(axes, names[:2], strict=True):
    for table, label in ((plain, "bound"), (calibrated, "calibrated bound")):
        own = table[table["outcome"] == name]
        ax.plot(own["look"], own["bound"], linestyle="--", label=label)
    ax.plot(own["look"], own["z"], color="black", marker="o", label="estimate")
    ax.set(title=name, xlabel="Look")
axes[0].set_ylabel("Estimate / standard error (z)")
axes[0].legend()

# %%
# With releases of a real study, ``steropes monitor look1 look2 look3 --planned 6`` makes the same
# tests, a page, and a record of the looks that cannot be rewritten without notice; with
# ``--freeze`` it writes the plan before the first look.
