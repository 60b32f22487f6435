"""What became of the rows of a data set: kept, capped, marked, skipped, and why."""

from dataclasses import asdict, dataclass, field
from typing import Any

MAX_EXAMPLES = 20
"""Messages kept of each kind; all are counted."""


@dataclass(kw_only=True, slots=True)
class Counts:
    """Totals of one preparation. Grows while rows are read, and is then kept."""

    num_rows: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    """Problems by split; those that cannot be judged safely have splits of their
    own."""
    num_skipped: int = 0
    """Rows that make no problem: malformed ones, and those that are published so."""
    skipped: list[str] = field(default_factory=list)
    """The first of their messages."""
    other_splits: dict[str, int] = field(default_factory=dict)
    """Rows of published splits that are neither train, validation nor test."""
    inexpressible: list[str] = field(default_factory=list)
    """The first reasons why tests cannot be run apart from the program."""
    num_tests: int = 0
    """Tests kept."""
    num_capped: int = 0
    """Problems that lost tests to the caps."""
    num_left_out_tests: int = 0

    @property
    def num_problems(self) -> int:
        """Problems of all splits."""
        return sum(self.sizes.values())

    def skip(self, message: str) -> None:
        """Notes a row that makes no problem."""
        self.num_skipped += 1
        if len(self.skipped) < MAX_EXAMPLES:
            self.skipped.append(message)

    def add(self, split: str, problem_id: str, reason: str) -> None:
        """Notes a problem that is kept.

        Args:
          split: Of the store.
          problem_id: Of the problem.
          reason: Why it cannot be judged safely, or empty.
        """
        self.sizes[split] = self.sizes.get(split, 0) + 1
        if reason and len(self.inexpressible) < MAX_EXAMPLES:
            self.inexpressible.append(f"{problem_id}: {reason}")

    def add_tests(self, num_kept: int, num_given: int) -> None:
        """Notes how many of a problem's tests are kept."""
        self.num_tests += num_kept
        self.num_left_out_tests += num_given - num_kept
        self.num_capped += num_kept < num_given

    def to_json(self) -> dict[str, Any]:
        """Returns all as JSON can hold it."""
        return asdict(self)


def counts_of_json(found: dict[str, Any]) -> Counts:
    """Returns the counts that were written as JSON."""
    return Counts(**found)
