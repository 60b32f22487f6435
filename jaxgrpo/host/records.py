"""What crosses between the rooms of the host: plain, frozen records of Python data.

A problem and its sampled completions form a group; the sandbox turns programs into
executions; the judge turns executions into verdicts; rewards turn verdicts into
scores. Nothing here knows jax.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

ProblemKind = Literal["output", "trace", "stdin", "call", "assert"]
ProgramMode = Literal["main", "calls", "trace"]
ExecutionStatus = Literal["OK", "RE", "CE", "TLE", "MLE", "OLE", "INFRA"]
VerdictStatus = Literal["OK", "WA", "RE", "CE", "TLE", "MLE", "OLE", "INFRA"]
FinishReason = Literal["eos", "stop", "length"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One test of a problem. Its expected value never enters the sandbox."""

    kind: Literal["stdin", "call", "assert"]
    stdin: str = ""
    """Text on standard input (kind `stdin`)."""
    function: str = ""
    """Name of the function to call (kind `call`)."""
    arguments: tuple[object, ...] = ()
    """Positional arguments, plain data (kind `call`)."""
    source: str = ""
    """One assert statement, or several lines that end in one (kind `assert`)."""
    expected: object = None
    """Expected standard output (`stdin`) or return value (`call`)."""
    compare: str = "exact"
    """Name of the comparator that decides equality."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem: what is asked, and what the judge needs to decide."""

    id: str
    """Unique and stable: randomness, replay and the tail slice are keyed by it."""
    kind: ProblemKind
    prompt: str
    """The user's message, before the chat template."""
    reference: str
    """The expected answer (`output`) or a reference solution (the other kinds)."""
    tests: tuple[Test, ...] = ()
    tags: dict[str, str] = field(default_factory=dict)
    """Slices to report by: difficulty, output type, dataset ..."""
    hints: tuple[str, ...] = ()
    """Hints from weak to strong, each including the ones before it."""
    columns: dict[str, object] = field(default_factory=dict)
    """Every other column of the data set, passed to the user's reward functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a sandboxed program may use."""

    cpu_s: float = 2.0
    """CPU seconds; decides TLE."""
    wall_s: float = 10.0
    """Wall-clock seconds; a backstop for sleeping programs, also TLE."""
    memory_bytes: int = 512 * 2**20
    """Address space beyond that of the bare interpreter."""
    output_bytes: int = 2**20
    """Largest standard output (and error) each; more is OLE."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a top-level function of the program."""

    function: str
    arguments: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What the sandbox sees: source and input. Never an expected value."""

    source: str
    mode: ProgramMode = "main"
    stdin: str = ""
    """Standard input (mode `main`)."""
    calls: tuple[Call, ...] = ()
    """Calls to make one after the other in one child (modes `calls`, `trace`)."""
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExceptionInfo:
    """An uncaught exception of the program."""

    type_name: str
    message: str
    line: int | None = None
    """1-based line of the program's source, where known."""
    end_line: int | None = None
    column: int | None = None
    """0-based character of the line, where known (syntax errors)."""
    end_column: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What one call gave: a value as plain data, or why there is none."""

    status: ExecutionStatus
    value: object = None
    """Plain data rebuilt by the parent; never an object of the candidate's classes."""
    exception: ExceptionInfo | None = None
    stdout: str = ""
    cpu_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceEvent:
    """One executed statement of a traced program."""

    line: int
    column: int
    end_line: int
    end_column: int
    kind: str
    """assign, branch, loop, return, call ..."""
    branch: bool | None = None
    """Outcome of a branch or loop test."""
    values: tuple[tuple[str, str], ...] = ()
    """(name, canonical value) of the tracked variables after the statement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What happened to one program in the sandbox."""

    status: ExecutionStatus
    results: tuple[CallResult, ...] = ()
    """One per call (modes `calls`, `trace`)."""
    stdout: str = ""
    stderr: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_bytes: int = 0
    exception: ExceptionInfo | None = None
    trace: tuple[tuple[TraceEvent, ...], ...] = ()
    """One list of events per call (mode `trace`)."""
    reason: str = ""
    """Why, in words, where the status alone does not say (signal, INFRA cause)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judge's decision on one completion."""

    status: VerdictStatus
    """Of the first test that did not pass, else OK. INFRA: no decision was possible."""
    error_class: str
    """The kind of failure (or `exact`, `passed`); the vocabulary is the judge's."""
    num_passed: int = 0
    num_tests: int = 0
    test_statuses: tuple[VerdictStatus, ...] = ()
    executions: tuple[Execution, ...] = ()
    detail: str = ""

    @property
    def is_correct(self) -> bool:
        """Whether everything that was judged passed."""
        return self.status == "OK"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A rendered prompt: what the model reads before a completion."""

    problem_id: str
    variant: str = ""
    """Empty for the plain prompt; otherwise what was added, e.g. `hint-2`."""
    text: str
    token_ids: np.ndarray
    """int32 [S]; completions are conditioned on exactly these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One sampled completion. Token ids are the truth; the text is derived."""

    problem_id: str
    prompt_variant: str = ""
    token_ids: np.ndarray
    """int32 [T], the end-of-sequence token included where it was sampled."""
    text: str
    """Decoded text without special tokens."""
    token_offsets: np.ndarray
    """int32 [T, 2]: each token's [start, end) characters of `text`; special tokens
    are empty. Tokens that share one character share its span."""
    finish_reason: FinishReason
    sampler_logprobs: np.ndarray
    """float32 [T], nats, at the sampling temperature, of the policy that sampled."""
    policy_step: int = 0
    """Number of updates the sampling policy had seen."""
    draw: int = 0
    """0 for the first time a step samples this problem, 1 for a refill ..."""
    sample: int = 0
    """Index within the group: part of the row's random key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Characters of the completion's text that a score speaks of."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What the scorer says of one completion."""

    rewards: dict[str, float]
    """By name, in config order; NaN abstains."""
    verdict: Verdict | None = None
    error_class: str = ""
    extracted: str = ""
    """The answer or code taken from the completion's text."""
    spans: tuple[Span, ...] = ()
    abstain_reason: str = ""
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by stage."""
    extra: dict[str, object] = field(default_factory=dict)
    """Columns that the user's reward functions logged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The samples of one problem that share a baseline.

    Regrouping (replay, hints, dropping) takes groups and returns groups; completions
    may stem from different prompt variants and from earlier policies.
    """

    problem: Problem
    prompts: tuple[Prompt, ...]
    """One per variant that a completion refers to."""
    completions: tuple[Completion, ...]
    scores: tuple[Score, ...] = ()
    """Aligned with `completions`; empty before scoring."""
