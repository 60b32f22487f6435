"""What a scoring worker and the process of a user's function say to each other."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from jaxgrpo.host.functions.settings import FunctionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerState:
    """How far the run is, with the names of transformers' `TrainerState`."""

    global_step: int = 0
    """Steps made before this one."""
    max_steps: int = 0
    """Of the whole run; 0 where there is no run."""
    epoch: float | None = None
    """Not known here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The first message to the process."""

    settings: FunctionSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The function is there and can be called."""

    is_async: bool
    """Whether calls that are handed over together run at the same time."""
    at_s: float
    """Reading of the machine's monotonic clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """There is no such function, or none that can be called."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of the function."""

    id: int
    num_rows: int
    """Completions that it is given, and values that it has to return."""
    arguments: Mapping[str, object]
    """All that it may ask for, by keyword."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Calls to make, in their order unless the function is async."""

    calls: tuple[Call, ...]
    trainer_state: TrainerState


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """What one call gave: plain data, whatever the function returned."""

    id: int
    values: tuple[float, ...]
    """One per row; NaN abstains."""
    failures: tuple[str, ...]
    """Aligned with `values`: what was wrong with one; empty where nothing was."""
    columns: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """Columns that the function logged, aligned likewise."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Numbers that it logged."""
    seconds: float = 0.0
    """That the call took."""
    at_s: float = 0.0
    """Reading of the machine's monotonic clock."""
