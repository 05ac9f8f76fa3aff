"""Random tables of events, exposures and observation for case-only designs."""

import numpy as np
import pandas as pd


def drawn(seed, people=60, days=400):
    """Events, exposures and observation with everything at borders."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 100, people)
    observation = pd.DataFrame(
        {"id": np.arange(people), "start": start, "end": start + rng.integers(50, 300, people)}
    )
    observation["sex"] = rng.integers(0, 2, people)
    observation["birth"] = rng.integers(-20000, -10000, people)
    observation["score"] = rng.normal(size=people).round(2)
    n = people
    events = pd.DataFrame({"id": rng.integers(0, people, n), "day": rng.integers(0, days, n)})
    first = rng.integers(-50, days, 6 * people)
    exposures = pd.DataFrame({"id": rng.integers(0, people, 6 * people), "start": first})
    exposures["end"] = first + rng.integers(0, 30, 6 * people)
    exposures["drug"] = rng.choice(["a", "b"], 6 * people)
    return events, exposures, observation


def exposed(exposures, person, drug, first, last):
    own = exposures[(exposures["id"] == person) & (exposures["drug"] == drug)]
    return bool(((own["start"] <= last) & (own["end"] >= first)).any())
