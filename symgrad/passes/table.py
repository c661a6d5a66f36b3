"""Pass manager: what a pass is, and the options under which the rows of tables of passes are run.

There is a table for each level a program goes through: `passes/pipeline.py` has the passes over
graphs, `codegen/schedule/passes.py` those over kernels of the loop language, and
`codegen/program/passes.py` those over programs of kernels. Here is what they share: no pass, and no
order of any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, field
from typing import Any, Generic, TypeVar

from symgrad.config import settings
from symgrad.cost_model.products import PANEL_BYTES
from symgrad.errors import GraphError
from symgrad.passes.rewrites.rewrite import Decision, Rewrite, Rewrites
from symgrad.records import dataclass

Before = TypeVar("Before")
Given = TypeVar("Given")
After = TypeVar("After")

Sink = Callable[[str, str], None]


@dataclass(frozen=True, slots=True)
class Pass(Generic[Before, Given, After]):
    """A row of a table: from a value of one level to another one of it, or of the next level.

    `after` names passes that run before this one, each with the reason. `print` and `verify` are of
    what `run` returns. A program is right without a pass, unless it `is_required`. One that
    `counts_itself` asks before each of its rewrites; of any other, all that it does is one.
    """

    name: str
    run: Callable[[Before, Given], After]
    _: KW_ONLY
    print: Callable[[After], str]
    verify: Callable[[After], None]
    after: Mapping[str, str] = field(default_factory=dict)
    is_required: bool = False
    counts_itself: bool = False


AnyPass = Pass[Any, Any, Any]
Row = TypeVar("Row", bound=AnyPass)


def check_order(rows: Sequence[AnyPass]) -> None:
    """Raise AssertionError unless names are unique and each pass is after those it has to be."""
    names = [row.name for row in rows]
    assert len(set(names)) == len(names), f"a pass is listed twice: {names}"
    for number, row in enumerate(rows):
        for before, reason in row.after.items():
            assert before in names, f"{row.name} runs after {before}, an unknown pass"
            assert before in names[:number], f"{before} must run before {row.name}: {reason}"
            assert reason, f"nothing says why {row.name} runs after {before}"


@dataclass(frozen=True, slots=True)
class Options:
    """Which passes are run, and who is told of what.

    `skip` names passes to leave out; behind `stop_after`, in its table and in those that follow,
    only required passes are run. `print_after` is called with the name of a pass and the text of
    its result, after each pass. `bisect` is the number of rewrites that are made, the first ones;
    `on_rewrite` is told of each, and `on_decision` of what was weighed. `fast_math` allows rules
    that hold only over the reals, and `checks_numerics` asks for checks of what a program gives
    and stores. Panels of weights that are made before loops have rows of `panel_bytes`, as suits a
    machine. `verify` checks the result of each pass; for None it is as the setting says.
    """

    skip: Collection[str] = ()
    stop_after: str | None = None
    print_after: Sink | None = None
    bisect: int | None = None
    on_rewrite: Callable[[Rewrite], None] | None = None
    on_decision: Callable[[Decision], None] | None = None
    fast_math: bool = False
    checks_numerics: bool = False
    panel_bytes: int = PANEL_BYTES
    verify: bool | None = None


ALL_PASSES = Options()


class PassRunner:
    """Runs passes on one program, and counts what they rewrite, from table to table.

    Raises `GraphError` for options that name an unknown pass, or skip one that is required.
    """

    def __init__(self, options: Options, rows: Sequence[AnyPass]) -> None:
        self._options = options
        self._rows = rows
        self._chosen = _chosen(options, rows)
        self._verifies = settings().verify if options.verify is None else options.verify
        self._is_watched = options.bisect is not None or options.on_rewrite is not None
        self._verified: object = None
        self.rewrites = Rewrites(
            fast_math=options.fast_math,
            checks_numerics=options.checks_numerics,
            panel_bytes=options.panel_bytes,
            limit=options.bisect,
            sink=options.on_rewrite,
            on_decision=options.on_decision,
        )

    @property
    def sees_each(self) -> bool:
        """Whether somebody is told of what each pass makes, or asked about it."""
        return self._is_watched or self._options.print_after is not None

    @property
    def is_usual(self) -> bool:
        """Whether all passes are run, unseen and unverified: their results may be kept."""
        own = self._options
        leaves_out = bool(own.skip) or own.stop_after is not None
        return not (leaves_out or self.sees_each or self._verifies)

    @property
    def verifies(self) -> bool:
        """Whether what passes make is verified."""
        return self._verifies

    def tell(self, decisions: Iterable[Decision]) -> None:
        """Tell who wants to know what has been weighed beside passes."""
        for decision in decisions:
            self.rewrites.explain(decision.rule, decision.node, decision.reason)

    def silent(self) -> PassRunner:
        """Return a runner of the same passes, which verifies nothing and tells nobody."""
        own = self._options
        options = Options(own.skip, own.stop_after, fast_math=own.fast_math, verify=False)
        return PassRunner(options, self._rows)

    def chosen(self, rows: Sequence[Row]) -> list[Row]:
        """Return those of `rows` that are to be run."""
        return [row for row in rows if row.name in self._chosen]

    def stops_after(self, row: AnyPass) -> bool:
        """Return whether `row` is the last that is run of those that are not required."""
        return row.name == self._options.stop_after

    def apply(
        self, row: Pass[Before, Given, After], value: Before, given: Given, *, is_shown: bool = True
    ) -> After:
        """Return what a pass makes of `value`, verified; tell who wants to see it."""
        try:
            result = row.run(value, given)
            if self._is_watched and not (row.counts_itself or row.is_required):
                result = self._if_allowed(row, value, result)
            if self._verifies and result != self._verified:
                row.verify(result)
                self._verified = result  # often the next pass has nothing to do
        except Exception as error:
            error.add_note(f"in pass {row.name}")
            raise
        if is_shown:
            self.show(row, result)
        return result

    def show(self, row: Pass[Any, Any, After], result: After) -> None:
        """Tell who wants to see it what a pass has made."""
        if self._options.print_after is not None:
            self._options.print_after(row.name, row.print(result))

    def _if_allowed(self, row: Pass[Any, Any, After], value: Any, result: After) -> After:
        """Return `result`, or `value`, of the same level, if that rewrite is one too many."""
        text = row.print(value)
        if text == row.print(result):
            return result
        where = text.partition(" {")[0].rpartition("\n")[2]
        is_allowed = self.rewrites.allow(row.name, where)
        return result if is_allowed else value


def _chosen(options: Options, rows: Sequence[AnyPass]) -> frozenset[str]:
    """Return the names of the passes to run."""
    names = [row.name for row in rows]
    for name in (*options.skip, *((options.stop_after,) if options.stop_after else ())):
        if name not in names:
            raise GraphError("passes", f"{name!r} is none of {', '.join(names)}")
    required = {row.name for row in rows if row.is_required}
    for name in options.skip:
        if name in required:
            raise GraphError("passes", f"{name!r} cannot be skipped: no program is right without")
    end = len(names) if options.stop_after is None else names.index(options.stop_after) + 1
    return frozenset({*names[:end]} - {*options.skip} | required)
