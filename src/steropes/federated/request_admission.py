"""The decision whether a site answers a request, by the owner's rules, small cells and ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ..data.group_checks_and_counts import count_distinct
from ..errors import DataError
from .answer_layout import layout, numbers_in
from .data_owner import Owner
from .disclosure_ledger import (
    Answered,
    PlanRecord,
    count_disclosed,
    refuse_differences,
)
from .dominant_people import refuse_dominated
from .federated_constants import ADMISSION, EVALUATION
from .federated_plan import PER_SITE, FederatedPlan
from .grouped_rows import GroupedRows, SiteReader, cells_with, grouped_rows
from .messages import Message
from .owner_rules import OwnerRules
from .pooled_evaluations import SHORTER_STEPS
from .row_hashes import keyed_digests, to_text
from .site_rows import SiteRows
from .small_cells import SiteCells

__all__ = ["Admission", "RefusedError"]


class RefusedError(Exception):
    """A site refuses a request.

    Attributes
    ----------
    reasons : list of str
        Sentences that may be sent to the lead.
    """

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class Admission:
    """Decides which requests of a plan a site answers, and records the answers."""

    def __init__(self, plan: FederatedPlan, read: SiteReader, owner: Owner) -> None:
        self.plan, self.owner = plan, owner
        self._read, self._grouped = read, GroupedRows(read(plan, {}), [])
        self._digests = self._digests_of(self._grouped.rows)
        self._known: list[str] = []
        self._cells: tuple[int, SiteCells] | None = None
        self._small: dict[tuple[str, ...], list[str]] = {}

    def _digests_of(self, rows: SiteRows) -> np.ndarray:
        """Return the keyed digests of all rows of the table, (n,) uint64."""
        if self.rules.least <= 1:
            return np.empty(0, np.uint64)
        return keyed_digests(rows.table.contents, self.owner.keys.row_secret)

    @property
    def rows(self) -> SiteRows:
        """The rows from which the site answers."""
        return self._grouped.rows

    def _update_rows(self, plans: list[PlanRecord]) -> None:
        """Group the rows after those of the plans in the ledger."""
        known = [p.study for p in plans]
        if self.rules.least > 1 and (not self._known or known != self._known):
            rules = self.rules
            self._grouped = grouped_rows(self.plan, plans, rules, self._read, self._digests)
            self._known, self._cells = known, None

    @property
    def rules(self) -> OwnerRules:
        """The owner's rules, made stricter where the plan requires it."""
        return self.owner.rules.with_plan(self.plan)

    @contextmanager
    def record_answer(self, request: Message, place: str) -> Iterator[list[int]]:
        """Record a request as answered, unless it is refused or its answer fails.

        Yields
        ------
        list of int
            A list to which the caller appends the number of numbers in its answer.

        Raises
        ------
        RefusedError
            The owner's rules forbid the answer; the reasons may be sent to the lead.
        DataError
            The request contradicts earlier answers of the site.
        """
        with self.owner.ledger.open() as plans:
            self._update_rows(plans)
            if self._grouped.refusals:
                raise RefusedError(self._grouped.refusals)
            record = self._record(plans, place)
            _refuse_other(record, request)
            self._refuse_by_rules(request)
            numbers = 0
            if request.ask not in PER_SITE:
                numbers = numbers_in(layout(self.plan, request))
            if self.rules.least > 1:
                self._refuse_by_data(plans, record, request, numbers)
            held: list[int] = []
            yield held
            if record not in plans:
                plans.append(record)
                self._known.append(record.study)
            if all(a.request != request.id for a in record.answered):
                record.answered.append(Answered(request.round, request.id, sum(held)))
            if request.ask not in PER_SITE and sorted(request.sites) not in record.totals:
                record.totals.append(sorted(request.sites))

    def withdraw(self, request: Message, place: str, consent: bool) -> None:
        """Record that the site takes no further part, unless it has answered the request.

        Parameters
        ----------
        consent : bool
            Whether the owner consents that the site's own sums can be computed from the totals
            with them, which are known, and those without them.
        """
        with self.owner.ledger.open() as plans:
            self._update_rows(plans)
            record = self._record(plans, place)
            if any(a.request == request.id for a in record.answered):
                raise DataError(
                    "this round is answered already; withdraw once the next one has been asked"
                )
            if record.totals and not consent:
                raise DataError(
                    "totals with this site's sums are known, so that its own sums would follow by "
                    "subtraction of totals without them: the numbers of people and events, means "
                    "and variances exactly, and its estimate roughly. Stop answering, so that the "
                    "plan ends here, or let the owner consent (--consent, consent=True)"
                )
            record.withdrawn = True
            if record not in plans:
                plans.append(record)

    def _record(self, plans: list[PlanRecord], place: str) -> PlanRecord:
        """Return the ledger's record of the plan, or a new one."""
        plan, rows = self.plan, self.rows
        for known in plans:
            if place and known.place == place and known.study != plan.study:
                raise DataError(
                    "this site has answered requests of another plan here: the plan was changed "
                    "after the first answer. Begin a changed plan in another folder"
                )
        pattern = self.cells(plans).pattern
        if rows.held_out is None:  # without folds the sums do not depend on the order of the rows
            pattern = np.sort(pattern)
        digest = hashlib.sha256(pattern.tobytes()).hexdigest()
        for known in plans:
            if known.study == plan.study:
                if known.rows != digest:
                    raise DataError(
                        "the rows are not those of the earlier answers to this plan. Answer with "
                        "the same rows, in the same order if there are folds, or begin again with "
                        "another plan"
                    )
                return known
        own = rows.problem.weights > 0
        people = count_distinct(rows.unit[own])
        largest = int(np.bincount(np.unique(rows.unit[own], return_inverse=True)[1]).max(initial=1))
        record = PlanRecord(
            plan.study, place, list(plan.table_columns), plan.outcome, list(plan.times),
            list(plan.sites), people, digest, table=rows.table.names, rows_of_person=largest,
        )  # fmt: skip
        if self.rules.least > 1:
            record.members = to_text(self._digests[own])
            record.grouped = rows.rare
            if record.grouped:
                record.plan = plan.to_dict()
                record.least, record.levels = self.rules.least, self.rules.levels
            same = [p.study for p in plans if p.members == record.members]
            if same:
                record.members = f"={same[0]}"
        return record

    def cells(self, plans: list[PlanRecord]) -> SiteCells:
        """Return the cells of the plan, together with those of other plans in the ledger."""
        if self._cells is None or self._cells[0] != len(plans):
            self._cells = (
                len(plans),
                cells_with(self.plan, plans, self.rules, self.rows, self._digests),
            )
            self._small = {}
        return self._cells[1]

    def _refuse_by_rules(self, request: Message) -> None:
        """Raise `RefusedError` for a method, kind of request or size that the rules forbid."""
        plan, rules = self.plan, self.rules
        if plan.method not in rules.methods:
            raise RefusedError([f"the owner does not allow the method {plan.method!r}"])
        if request.ask in PER_SITE:
            if request.ask not in rules.per_site:
                raise RefusedError(
                    [f"the owner has not consented to {request.ask!r}, which discloses numbers of "
                     "this site alone (per_site in the owner's rules)"]
                )  # fmt: skip
        elif len(request.sites) < rules.sites:
            raise RefusedError([f"the owner allows totals of {rules.sites} sites or more"])
        if request.round >= rules.rounds:
            raise RefusedError([f"the owner allows {rules.rounds} rounds"])
        if "points" in request.arrays and len(request.arrays["points"]) > rules.points:
            raise RefusedError([f"the owner allows {rules.points} points in a request"])

    def _refuse_by_data(
        self, plans: list[PlanRecord], record: PlanRecord, request: Message, numbers: int
    ) -> None:
        """Raise `RefusedError` if the answer would disclose numbers of too few people."""
        plan, rules, cells = self.plan, self.rules, self.cells(plans)
        asked = () if request.ask in PER_SITE else request.sites
        small = refuse_differences(plans, record, rules.least, asked)
        coefficients = len(plan.columns) + bool(plan.intercepts or plan.has_own_intercepts)
        if not small and coefficients > rules.parameters_per_row * record.people:
            small = [
                f"there are more than {rules.parameters_per_row:g} coefficients for each person: "
                "leave columns out of the plan"
            ]
        if not small:
            small = self._small_cells(cells, request)
        if not small:
            before = count_disclosed(plans, but=request.id)
            own = numbers + self._expected_numbers(request)
            small = self._determinable_tables(cells, before + own)
            if not small:
                small = self._determinable_together(cells, plans, request, own)
        if small:
            raise RefusedError(small)

    def _small_cells(self, cells: SiteCells, request: Message) -> list[str]:
        """Return sentences on small cells of the columns that a request combines."""
        plan = self.plan
        pairs: tuple[str, ...] = ()
        if request.ask != "profile" and len(plan.columns) <= EVALUATION.max_full_hessian:
            pairs = plan.columns
        elif "columns" in request.arrays:
            at = request.numbers("columns", 0, len(plan.columns))
            pairs = tuple(plan.columns[j] for j in at)
        if pairs not in self._small:
            self._small[pairs] = cells.refusals(pairs, refuse_dominated)
        return self._small[pairs]

    def _expected_numbers(self, request: Message) -> int:
        """Return the smallest number of numbers that the plan requests after its description."""
        if request.ask != "describe":
            return 0
        p, T = len(self.plan.columns), len(self.plan.times)
        q, points = min(p, EVALUATION.max_full_hessian), 1 + len(SHORTER_STEPS)
        one = points * (1 + p) + q * (q + 1) // 2 + T * (2 * points + 2 * p)
        plan = self.plan
        fits = (
            (1 + plan.folds * plan.repeats) * (len(plan.search) or ADMISSION.min_variances)
            if plan.folds
            else 1
        )
        return ADMISSION.min_rounds * one * fits

    def _determinable_tables(self, cells: SiteCells, numbers: int) -> list[str]:
        """Return sentences on tables with small cells that these many numbers could determine."""
        for what, (combinations, small) in (
            ("the columns of few values", cells.few), ("all columns", cells.all),
        ):  # fmt: skip
            if small and numbers > self.rules.answers_per_cell * combinations:
                return [
                    f"the table of {what} has cells of fewer than {self.rules.least} people, which "
                    "could be computed from the numbers that this plan and earlier ones disclose: "
                    "leave columns out of the plan, merge their values, or do without folds"
                ]
        return []

    def _determinable_together(
        self, cells: SiteCells, plans: list[PlanRecord], request: Message, own: int
    ) -> list[str]:
        """Return sentences on a table of several plans that their numbers could determine."""
        each = {a.request: (a.numbers, frozenset(p.columns))
                for p in plans for a in p.answered if a.request != request.id}  # fmt: skip
        spent = {frozenset(self.plan.table_columns): own}
        for numbers, columns in each.values():
            spent[columns] = spent.get(columns, 0) + numbers
        for numbers, combinations, small in cells.tables(list(spent.items())):
            if small and numbers > self.rules.answers_per_cell * combinations:
                return [
                    f"the table of the columns of this plan and earlier ones has cells of fewer "
                    f"than {self.rules.least} people, which could be computed from the numbers "
                    "that they disclose together: leave columns out of the plan, or merge values"
                ]
        return []


def _refuse_other(record: PlanRecord, request: Message) -> None:
    """Raise `DataError` if a round is answered twice in different ways, or after a withdrawal."""
    if record.withdrawn:
        raise DataError("this site has withdrawn from the plan")
    for answered in record.answered:
        if answered.round == request.round and answered.request != request.id:
            raise DataError(
                f"this site has answered another request of round {request.round}: the lead "
                "changed it. Do not answer it"
            )
