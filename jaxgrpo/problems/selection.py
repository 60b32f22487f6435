"""Which problems are trained on, by how many samples of a model passed before."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import overload

from jaxgrpo.host.prompts import stable_hash
from jaxgrpo.host.records import Problem
from jaxgrpo.problems.pass_rates import PassRate

SOLVED = "solved"
PARTLY_SOLVED = "partly solved"
UNSOLVED = "unsolved"
UNMEASURED = "unmeasured"
CLASSES = (SOLVED, PARTLY_SOLVED, UNSOLVED, UNMEASURED)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRules:
    """Share of the problems of each class that is kept."""

    solved: float = 0.0
    """Of those that every sample solved."""
    partly_solved: float = 0.5
    """Of those that some samples solved."""
    unsolved: float = 1.0
    """Of those that no sample solved."""
    max_unsolved: int = 0
    """Most unsolved problems that are kept; 0 for no limit."""

    def share_of(self, name: str) -> float:
        """Returns the share that is kept of a class; all of what was not measured.

        Args:
          name: One of CLASSES.
        """
        shares = {
            SOLVED: self.solved,
            PARTLY_SOLVED: self.partly_solved,
            UNSOLVED: self.unsolved,
            UNMEASURED: 1.0,
        }
        return shares[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which problems are kept, and how many there were."""

    places: tuple[int, ...]
    """Among all problems, in order."""
    num_found: Counter[str] = field(default_factory=Counter)
    """By class."""
    num_kept: Counter[str] = field(default_factory=Counter)

    def text(self) -> str:
        """Returns the counts in a line."""
        parts = [
            f"{name} {self.num_kept[name]:,} of {self.num_found[name]:,}"
            for name in CLASSES
            if self.num_found[name]
        ]
        total = self.num_found.total()
        return f"kept {len(self.places):,} of {total:,} problems: {', '.join(parts)}"


def class_of(rate: PassRate | None) -> str:
    """Returns the class of a problem.

    Args:
      rate: Its pass rate; None where there is none.
    """
    if rate is None or not rate.num_judged:
        return UNMEASURED
    if rate.num_passed == rate.num_judged:
        return SOLVED
    return PARTLY_SOLVED if rate.num_passed else UNSOLVED


def select(
    problem_ids: Iterable[str], rates: Mapping[str, PassRate], rules: KeepRules
) -> Selection:
    """Returns which problems to keep.

    Whether a problem is kept depends on its id, its class and the rules, not on the
    other problems; but for `max_unsolved`, which takes the lowest of their hashes. So a
    share that is raised keeps all that were kept before.

    Args:
      problem_ids: In order.
      rates: By problem id.
      rules: What to keep.

    Reference:
      Zhang et al., Scaf-GRPO, 2025, https://arxiv.org/abs/2510.19807: of 8 samples, all
      solved is dropped, 1 to 7 solved is halved, none solved is kept. Differs from it:
      which half is decided by a hash of the id.
    """
    classes = [(name, class_of(rates.get(name))) for name in problem_ids]
    kept = [
        (place, _lot(name), kind)
        for place, (name, kind) in enumerate(classes)
        if _lot(name) < rules.share_of(kind)
    ]
    unsolved = sorted((lot, place) for place, lot, kind in kept if kind == UNSOLVED)
    if rules.max_unsolved:
        left_out = {place for _, place in unsolved[rules.max_unsolved :]}
        kept = [entry for entry in kept if entry[0] not in left_out]
    return Selection(
        places=tuple(place for place, _, _ in kept),
        num_found=Counter(kind for _, kind in classes),
        num_kept=Counter(kind for _, _, kind in kept),
    )


def _lot(problem_id: str) -> float:
    """A number in [0, 1) that is the problem's own."""
    return stable_hash(f"keep {problem_id}")[0] / 2**32


class KeptProblems(Sequence[Problem]):
    """The problems at some places of others, read when they are asked for.

    Args:
      problems: All.
      places: Of those that are kept.
    """

    def __init__(self, problems: Sequence[Problem], places: Sequence[int]):
        self._problems = problems
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, index: int) -> Problem: ...
    @overload
    def __getitem__(self, index: slice) -> list[Problem]: ...
    def __getitem__(self, index: int | slice) -> Problem | list[Problem]:
        if isinstance(index, slice):
            return [self._problems[place] for place in self._places[index]]
        return self._problems[self._places[index]]
