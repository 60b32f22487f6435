"""What the scorer and its workers say to each other."""

from dataclasses import dataclass, field

from jaxgrpo.host.credit.settings import BlameSettings
from jaxgrpo.host.credit.steps import StepSettings
from jaxgrpo.host.functions.messages import TrainerState
from jaxgrpo.host.judge.passages import Markers
from jaxgrpo.host.quality import QualitySettings
from jaxgrpo.host.records import Completion, Limits, Problem, Score, Verdict
from jaxgrpo.host.rewards import RewardSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """How workers confine and limit the programs they run."""

    level: str = "auto"
    """`auto` for the best available, or A, B, C, D."""
    minimum_level: str = "B"
    """Refuse to run programs below this level."""
    allow_unsafe: bool = False
    """Permits level D, which stops accidents but no attack."""
    cpu_s: float = 2.0
    """CPU seconds per program."""
    wall_s: float = 10.0
    """Wall-clock seconds per program."""
    memory_bytes: int = 512 * 2**20
    """Bytes of address space per program."""
    output_bytes: int = 2**20
    """Bytes of standard output per program."""
    packages: tuple[str, ...] = ("numpy",)
    """Installed packages that programs may import, loaded before any of them runs."""

    @property
    def limits(self) -> Limits:
        """The limits as programs carry them."""
        return Limits(
            cpu_s=self.cpu_s,
            wall_s=self.wall_s,
            memory_bytes=self.memory_bytes,
            output_bytes=self.output_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The first message to a worker."""

    rewards: tuple[RewardSpec, ...]
    """In config order; none that a device computes."""
    deadline_s: float
    """Seconds that one job may take."""
    sandbox: SandboxSettings
    parent_pid: int
    """The worker ends when this is no longer its parent."""
    extraction: str = "last_block"
    """Rule by which programs are found in texts."""
    literal_extraction: str = "whole"
    """Rule by which literals are found."""
    markers: Markers = Markers()
    """Between which the rule `markers` looks."""
    stops_at_failure: bool = False
    """Whether tests are left out after the first that did not pass."""
    blame: BlameSettings | None = None
    """How to find where completions went wrong; None where nobody asks."""
    steps: StepSettings | None = None
    """How predicted steps are credited; None where nobody asks."""
    quality: QualitySettings | None = None
    """How passing completions are graded; None where nobody asks."""
    cpu: int | None = None
    """Processor core for the worker's programs; None leaves it to the scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The first message from a worker: it is loaded and takes jobs."""

    at_s: float
    """Reading of the machine's monotonic clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One group to score."""

    id: int
    problem: Problem
    completions: tuple[Completion, ...]
    verdicts: tuple[Verdict | None, ...]
    """Aligned with `completions`; None where the judge is to be asked."""
    wants_rewards: bool = True
    """Whether more than the verdicts is asked for."""
    trainer_state: TrainerState = TrainerState()
    """What the user's functions may know of the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The scores of one job."""

    id: int
    scores: tuple[Score, ...]
    sandbox_level: str = ""
    """Level of the worker's sandbox; empty while it has none."""
    outputs: dict[str, str] = field(default_factory=dict)
    """What functions of the user's wrote for the first time, by reward."""
    at_s: float
    """Reading of the machine's monotonic clock when the job ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A worker will run no program: no permitted sandbox can be had here."""

    reason: str
    """What is missing, and how to get it."""
    at_s: float
    """Reading of the machine's monotonic clock."""
