"""What crosses between the rooms of the host: plain, frozen records of Python data.

A problem and its sampled completions form a group; the sandbox turns programs into
executions; the judge turns executions into verdicts; rewards turn verdicts into
scores. Nothing here knows jax.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from jaxgrpo.host.trace_records import Trace

ProblemKind = Literal["output", "trace", "input", "stdin", "call", "assert"]
ProgramMode = Literal["main", "calls", "trace", "tests"]
ExecutionStatus = Literal["OK", "RE", "CE", "TLE", "MLE", "OLE", "INFRA"]
VerdictStatus = Literal["OK", "WA", "RE", "CE", "TLE", "MLE", "OLE", "INFRA"]
FinishReason = Literal["eos", "stop", "length"]
BlameMode = Literal["syntax", "constraint", "correct", "logic"]
HintTier = Literal["knowledge", "planning", "solution"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One test of a problem. Its expected value never enters the program's process."""

    __test__ = False  # pytest takes every class of such a name for one of its own

    kind: Literal["stdin", "call", "assert"]
    stdin: str = ""
    """Text on standard input (kind `stdin`)."""
    function: str = ""
    """Name of the function to call (kind `call`); of the function that `check` is to be
    given or that shadows a builtin (kind `assert`)."""
    arguments: tuple[object, ...] = ()
    """Positional arguments, plain data (kind `call`)."""
    keywords: dict[str, object] = field(default_factory=dict)
    """Keyword arguments, plain data (kind `call`)."""
    source: str = ""
    """Statements that assert something of the program's functions, helpers and data
    included; or a definition of `check(candidate)` that does (kind `assert`). In a
    problem of kind `input`: the program that the answer is arguments for."""
    expected: object = None
    """Expected standard output (`stdin`) or return value (`call`)."""
    compare: str = "default"
    """Name of the comparator that decides equality, with its options in parentheses:
    `float(rel=1e-4)`. The default is `tokens` for `stdin` and `float` for `call`."""
    checker: str = ""
    """Source of a program that decides instead of a comparator: it defines
    `check(stdin, expected, output)` or `check(arguments, expected, value)`."""
    is_inside: bool = False
    """Run the asserts in the program's own process, where it can forge the result. For
    asserts that can be expressed in no other way (kind `assert`)."""


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
    trace_events: int = 2000
    """Largest number of boundaries of one trace (mode `trace`)."""
    trace_bytes: int = 2**20
    """Largest size of all traces together, as they are written (mode `trace`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTests:
    """Where the tests of a problem are: `stored_tests.py` reads them."""

    path: str
    """File with the tests of many problems."""
    position: int
    """Byte where those of this one begin."""
    num_bytes: int
    """Bytes that they take there."""
    checksum: int
    """CRC-32 of these bytes."""
    count: int

    def __len__(self) -> int:
        return self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem: what is asked, and what the judge needs to decide."""

    id: str
    """Unique and stable: randomness, replay and the tail slice are keyed by it."""
    kind: ProblemKind
    prompt: str
    """The user's message, before the chat template."""
    reference: str
    """The expected answer (`output`, `trace`), arguments that are right (`input`), or a
    reference solution (the other kinds)."""
    tests: tuple[Test, ...] | StoredTests = ()
    """All of the problem's kind (kinds `stdin`, `call`, `assert`; those of kind `input`
    are calls), or where they are."""
    limits: Limits | None = None
    """What one test may use; None takes the configured limits."""
    tags: dict[str, str] = field(default_factory=dict)
    """Slices to report by: difficulty, output type, dataset ..."""
    hints: tuple[str, ...] = ()
    """Hints from weak to strong, each including the ones before it (of its tier)."""
    hint_tiers: tuple[HintTier, ...] = ()
    """The tier of each hint, from abstract to concrete; empty where there are none."""
    columns: dict[str, object] = field(default_factory=dict)
    """Every other column of the data set, passed to the user's reward functions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a top-level function of the program."""

    function: str
    arguments: tuple[object, ...] = ()
    keywords: dict[str, object] = field(default_factory=dict)
    is_drained: bool = False
    """Take `list(value)`: what only iterates, such as a generator, is data then."""
    returns_arguments: bool = False
    """Also bring back the positional arguments, if the call has changed them."""


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
    arguments: tuple[object, ...] | None = None
    """The positional arguments afterwards, where the call asked for them and has
    changed them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a tester process found out by one test of a program in another process."""

    status: Literal["passed", "failed", "inexpressible"]
    """`inexpressible`: it would have to hand over more than plain data."""
    num_calls: int = 0
    """Calls of the program's functions that it made."""
    exception: ExceptionInfo | None = None
    """What the test ended with; its line is one of the test's source."""
    cause: CallResult | None = None
    """The program's call that gave no value, if that is what ended the test."""
    cpu_s: float = 0.0
    """Of the program's calls, as it tells itself."""
    reason: str = ""
    """What is inexpressible, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """What happened to one program in the sandbox."""

    status: ExecutionStatus
    results: tuple[CallResult, ...] = ()
    """One per call (modes `calls`, `trace`)."""
    is_loaded: bool = True
    """Whether the program's top level ran to its end (modes with calls)."""
    num_answered: int = 0
    """Calls that the program came back from; the results after these were lost."""
    stdout: str = ""
    stderr: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_bytes: int = 0
    exception: ExceptionInfo | None = None
    traces: tuple[Trace, ...] = ()
    """One per call, or one where there are no calls (mode `trace`)."""
    reason: str = ""
    """Why, in words, where the status alone does not say (signal, INFRA cause)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """How a program stood up to a tester."""

    execution: Execution
    """Of the program; OK where every test was gone through, whatever it found."""
    findings: tuple[Finding, ...] = ()
    """One per test, in order, until either process ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Characters of the completion's text that a score speaks of."""

    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TestResult:
    """What one test of a program showed."""

    __test__ = False

    status: VerdictStatus
    error_class: str
    """The kind of failure, or `passed`; the vocabulary is the judge's."""
    cpu_s: float = 0.0
    peak_bytes: int = 0
    """Of the process, which tests of kind `call` and `assert` share."""
    exception: ExceptionInfo | None = None
    """Of the program, with the line of its source."""
    stdout: str = ""
    """What the program printed, capped."""
    is_stdout_cut: bool = False
    rung: str = ""
    """What matched, for comparators that try more than one rule."""
    detail: str = ""
    """What was expected and what came, or why there is no decision; capped."""
    output_key: str = ""
    """Equal for tests in which programs gave the same, right or wrong; empty where what
    they gave is not seen here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judge's decision on one completion."""

    status: VerdictStatus
    """Of the first test that did not pass, else OK. INFRA: no decision was possible."""
    error_class: str
    """The kind of failure (or `exact`, `passed`); the vocabulary is the judge's."""
    num_passed: int = 0
    num_tests: int = 0
    results: tuple[TestResult, ...] = ()
    """Of the tests that were run, in their order. Fewer than `num_tests` where the
    judge stopped early; the tests it left out count as not passed."""
    extracted: str = ""
    """The answer or code taken from the completion's text."""
    spans: tuple[Span, ...] = ()
    """Characters of the completion's text that the verdict speaks of."""
    detail: str = ""

    @property
    def is_correct(self) -> bool:
        """Whether everything that was judged passed."""
        return self.status == "OK"

    @property
    def test_statuses(self) -> tuple[VerdictStatus, ...]:
        """Status of each test that was run."""
        return tuple(result.status for result in self.results)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A rendered prompt: what the model reads before a completion."""

    problem_id: str
    variant: str = ""
    """Empty for the plain prompt; otherwise what was added (`prompt_variants.py`)."""
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
    stop: str = ""
    """Stop string that ended it and that `text` is cut before; empty where none did."""
    in_thought: bool = False
    """Whether its prompt ends inside a thought, which `</think>` has to end first."""
    sampler_logprobs: np.ndarray
    """float32 [T], nats, at the sampling temperature, of the policy that sampled."""
    policy_step: int = 0
    """Number of updates the sampling policy had seen."""
    draw: int = 0
    """0 for the first time a step samples this problem, 1 for a refill ..."""
    sample: int = 0
    """Index within the group: part of the row's random key."""
    constraint_id: int = 0
    """Index of the token constraint it was drawn under; 0 is none."""
    budget: int = 0
    """Most tokens that it might have had, the end-of-sequence token included; 0 if that
    is not known. What a constraint allows depends on it."""
    kept_ids: np.ndarray | None = None
    """int32 [T, k]: ids that each token was drawn from, under truncated sampling; one
    is repeated where fewer than k were left. None where all could be drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """What is known of where a completion went wrong."""

    mode: BlameMode
    span: Span | None = None
    """Characters of the completion's text; None for uniform credit."""
    tokens: tuple[int, int] | None = None
    """Tokens that wrote these: the first, and the one after the last."""
    fallback: str = ""
    """Why there is no span, or only that of the result, in a mode that has spans."""
    num_boundaries: int = 0
    """Of the candidate's trace."""
    similarity: float = 1.0
    """Of the control flow to that of the reference, in [0, 1]."""
    broken: tuple[str, ...] = ()
    """Kinds of constraints that are broken."""
    detail: str = ""
    """What went wrong in finding out."""
    seconds: float = 0.0
    """Time that it took to find out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRewards:
    """What a completion earns step by step. `rewards` and `ends` are aligned."""

    rewards: tuple[float, ...]
    """1 for a right step, else 0; NaN for one whose credit is left out."""
    ends: tuple[int, ...]
    """One past the last token of each step, not decreasing; a step that is missing or
    left out repeats the end before it."""
    num_missing: int = 0
    """Steps that the completion lacks, or has out of their order."""
    spans: tuple[tuple[int, int], ...] = ()
    """Characters of the text of the steps that have tokens, [start, end)."""


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
    blame: Blame | None = None
    """Where credit is given by execution: what it found out."""
    abstain_reason: str = ""
    advantage_factor: float = 1.0
    """What the completion's advantage is multiplied by after its group's statistics,
    in which it takes part whatever this is."""
    quality: float | None = None
    """Grade among the passing completions of the group, in (0, 1]; None without."""
    steps: StepRewards | None = None
    """Where steps have advantages of their own: what each earned."""
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by stage."""
    extra: dict[str, object] = field(default_factory=dict)
    """Columns that the user's reward functions logged."""
    failures: dict[str, str] = field(default_factory=dict)
    """Rewards that failed on this completion, by name, and how: unlike those that
    abstain because they have nothing to say."""
    logged: dict[str, float] = field(default_factory=dict)
    """Numbers that the user's functions logged while they scored this completion."""


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
