"""An attacker on released files: all numbers of a table together, as equations and inequalities.

The attacker knows the rules of disclosure control, and hence which exact counts a released cell can
stand for.
"""

import contextlib
import io
import re
from html.parser import HTMLParser

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

ARMS = ("target", "comparator")
# The rules under which releases are attacked, with the smallest count that each releases.
RULES = ("ohdsi", "opensafely")
LEAST = {"ohdsi": 5, "opensafely": 8}


def cell_range(cell, least, rounds, most=100_000):
    """The exact counts that a released cell stands for, as (lowest, highest)."""
    if isinstance(cell, str):
        limit = int(cell[1:].replace(",", ""))
        return (1 if limit == least else 0, limit - 1)
    if cell is None or cell != cell:
        return (0, most)
    n = int(cell)
    if n < 0:  # as tables of grids write bounds
        return (1 if -n == least else 0, -n - 1)
    return (n - 2, n + 3) if rounds and n else (n, n)


class Unknowns:
    """Whole numbers that are known to lie in ranges and to satisfy linear equations."""

    def __init__(self):
        self.names, self.low, self.high, self.rows = {}, [], [], []

    def add(self, name, low, high):
        self.names[name] = len(self.low)
        self.low.append(low)
        self.high.append(high)

    def known(self, name):
        """The only value of an unknown in its range, or None."""
        i = self.names[name]
        return self.low[i] if self.low[i] == self.high[i] else None

    def say(self, terms, low, high):
        """State that a sum of (factor, name) lies in a range."""
        self.rows.append((terms, low, high))

    def range_of(self, name, presolve=True):
        """The smallest and the largest value of an unknown that all statements together allow.

        The presolve of HiGHS is fast, but rarely loses solutions.
        """
        A = np.zeros((len(self.rows), len(self.low)))
        for row, (terms, _, _) in zip(A, self.rows, strict=True):
            for factor, of in terms:
                row[self.names[of]] += factor
        limits = LinearConstraint(A, [r[1] for r in self.rows], [r[2] for r in self.rows])
        found = []
        for sign in (1, -1):
            c = np.zeros(len(self.low))
            c[self.names[name]] = sign
            ends = milp(
                c, constraints=limits, integrality=np.ones(len(c)),
                bounds=Bounds(self.low, self.high), options={"presolve": presolve},
            )  # fmt: skip
            assert ends.success, (name, ends.message)
            found.append(round(sign * ends.fun))
        return tuple(found)


def study_unknowns(numbers):
    """The counts of a study of one question, from all of its released numbers of people."""
    rules = numbers["disclosure"]
    least, rounds = rules["min_cell"], rules["rules"] == "opensafely"
    x, hidden, lines = Unknowns(), [], numbers["attrition"]

    def add(name, cell):
        x.add(name, *cell_range(cell, least, rounds))
        if isinstance(cell, str) or cell is None:
            hidden.append(name)

    for arm in ARMS:
        for k, line in enumerate(lines):
            add((arm, "left", k), line[arm])
            if k:
                dropped = line[f"{arm}_dropped"]
                ends = (line[arm], lines[k - 1][arm])
                if rounds and isinstance(dropped, int) and dropped:
                    dropped = None  # a difference of rounded counts
                elif rounds and dropped == 0 and all(isinstance(n, int) for n in ends):
                    dropped = None
                add((arm, "dropped", k), dropped)
                x.say([(1, (arm, "left", k - 1)), (-1, (arm, "left", k)),
                       (-1, (arm, "dropped", k))], 0, 0)  # fmt: skip
    matched = len(lines) - 1
    for rate in numbers["rates"]:
        arm, when = rate["arm"], rate["analysis"]
        add((arm, when), rate["people"])
        add((arm, when, "events"), rate["events"])
        k = matched if when == "matched" else matched - 1
        x.say([(1, (arm, when)), (-1, (arm, "left", k))], 0, 0)
        x.say([(1, (arm, when)), (-1, (arm, when, "events"))], 0, np.inf)
    for arm in ARMS:
        x.say([(1, (arm, "all", "events")), (-1, (arm, "matched", "events"))], 0, np.inf)
        x.say([(1, (arm, "all")), (-1, (arm, "all", "events")), (-1, (arm, "matched")),
               (1, (arm, "matched", "events"))], 0, np.inf)  # fmt: skip
    x.say([(1, ("target", "matched")), (-1, ("comparator", "matched"))], 0, 0)
    for line in numbers["hazard_ratios"]:
        when = "all" if line["analysis"] == "crude" else "matched"
        for what, parts in (
            ("people", [(1, (a, when)) for a in ARMS]),
            ("events", [(1, (a, when, "events")) for a in ARMS]),
        ):
            low, high = cell_range(line[what], 0, rounds)
            x.say(parts, low, high)
    x.add("everybody", *cell_range(numbers["covariates"]["people"], 0, rounds))
    x.say([(1, "everybody"), *[(-1, (a, "all")) for a in ARMS]], 0, 0)
    return x, hidden


class Texts(HTMLParser):
    """The texts of a page or picture that a reader sees, or hears read aloud."""

    def __init__(self, text):
        super().__init__()
        self.inside, self.found = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.inside.append(tag)
        self.found += [v for k, v in attrs if k in ("aria-label", "alt", "title") and v]

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"style", "script"} & {*self.inside}:
            self.found.append(data)


def number_tokens(text):
    """The numbers of a text, without separators of thousands."""
    text = text.replace("−", "-").replace("\u202f", "").replace("\xa0", " ")
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text)
    return re.findall(r"(?<![\w.])\d+(?:\.\d+)?", text)


def page_tokens(text):
    """The numbers of a page or picture."""
    return [t for part in Texts(text).found for t in number_tokens(part)]


def flat(value):
    """All plain values within others."""
    if isinstance(value, dict):
        for k, v in value.items():
            yield from flat(k)
            yield from flat(v)
    elif isinstance(value, list):
        for v in value:
            yield from flat(v)
    else:
        yield value


def explained(token, numbers):
    """Whether a number of a page is a released one, a percentage, or one less that."""
    digits = len(token.partition(".")[2])
    x = float(token)
    for n in numbers:
        for y in (n, 100 * n, 100 * (1 - n), 1 - n, 1000 * n):
            if abs(abs(y) - x) <= 0.5000001 * 10.0**-digits or (
                digits == 0 and int(abs(y)) == int(x)
            ):
                return True
    return False


def numbers_of(value):
    """All numbers within released values, also those of bounds."""
    found = set()
    for v in flat(value):
        if isinstance(v, bool) or v is None:
            continue
        if isinstance(v, int | float):
            found.add(float(v))
        else:
            found |= {float(t) for t in number_tokens(str(v))}
    return found


def terminal_text(show, *arguments):
    """What a function prints."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        show(*arguments)
    return shown.getvalue()
