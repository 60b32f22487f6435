"""The user's own functions, run as they are, against tables computed by hand."""

import dataclasses
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxgrpo.host.functions.messages import TrainerState
from jaxgrpo.host.functions.process import FunctionProcess
from jaxgrpo.host.judge import infra_verdict
from jaxgrpo.host.records import Completion, Problem, Score, Verdict
from jaxgrpo.host.rewards import RewardSpec
from jaxgrpo.host.rewards.function import Settings
from jaxgrpo.host.rewards.judged import Judged
from jaxgrpo.host.scoring import scores_of
from jaxgrpo.host.worker_rewards import WorkerRewards
from tests.host.sandbox.processes import becomes_true, is_alive

FOLDER = Path(__file__).parent
WRONG = Verdict(status="WA", error_class="wrong_value")
NONE = None


def completion(text: str, num_tokens: int) -> Completion:
    return Completion(
        problem_id="p",
        token_ids=np.arange(num_tokens, dtype=np.int32),
        text=text,
        token_offsets=np.zeros((num_tokens, 2), np.int32),
        finish_reason="eos",
        sampler_logprobs=np.zeros(num_tokens, np.float32),
    )


def judged(texts: dict[str, int], **columns: object) -> Judged:
    """A group of texts, each with its number of tokens."""
    problem = Problem(
        id="p", kind="output", prompt="Q?", reference="42", columns=columns
    )
    completions = tuple(completion(text, n) for text, n in texts.items())
    return Judged(
        problem=problem, completions=completions, verdicts=(WRONG,) * len(texts)
    )


def spec_of(file: str, name: str, **settings: Any) -> RewardSpec:
    function = f"{FOLDER / file}:{name}" if name else str(FOLDER / file)
    return RewardSpec(
        name=name or "score",
        kind="function",
        settings=Settings(function=function, **settings),
    )


def scored(
    group: Judged, *specs: RewardSpec, state: TrainerState | None = None
) -> tuple[Score, ...]:
    with WorkerRewards(specs) as rewards:
        return scores_of(group, rewards.earned(group, state or TrainerState()))


def column(scores: tuple[Score, ...], name: str) -> list[float | None]:
    """The values of a reward, None where it abstains."""
    values = [score.rewards[name] for score in scores]
    return [None if math.isnan(value) else value for value in values]


# TRL: what each function gives, by hand, under the semantics that TRL documents.


MATH = judged({r"so \boxed{42}": 3, "print(42)": 5, "": 0}, ground_truth="42")
TALK = judged({"<think>a</think><answer>b</answer>": 4, "<answer>b</answer>": 2})


@pytest.mark.parametrize(
    ("name", "settings", "group", "expected"),
    [
        ("longest", {}, MATH, [3.0, 5.0, 0.0]),
        ("boxed", {}, MATH, [1.0, 0.0, 0.0]),
        ("thought_before_answer", {"conversational": True}, TALK, [1.0, 0.0]),
        ("slow_length", {}, MATH, [1.3, 0.9, 0.0]),
        ("only_completions", {}, MATH, [0.0, 0.0, 0.0]),
        ("only_completions", {}, TALK, [1.0, 1.0]),
        ("half_length", {}, MATH, [6.5, 4.5, 0.0]),
        ("contains_a", {}, TALK, [1.0, 1.0]),
        ("slowly_contains_a", {}, TALK, [1.0, 1.0]),
        ("contains_a.__call__", {}, TALK, [1.0, 1.0]),
    ],
)
def test_functions_of_trl_run_unchanged(
    name: str, settings: dict[str, Any], group: Judged, expected: list[float]
):
    scores = scored(group, spec_of("trl_style.py", name, **settings))
    assert column(scores, name) == expected
    assert [score.abstain_reason for score in scores] == [""] * len(expected)


@pytest.mark.parametrize(
    ("task", "math_only", "code_only"),
    [
        ("math", [1.0, 1.0, -1.0], [NONE, NONE, NONE]),
        ("code", [NONE, NONE, NONE], [-1.0, 1.0, -1.0]),
    ],
)
def test_none_abstains(task: str, math_only: list[Any], code_only: list[Any]):
    group = judged({"is 42": 2, "print(42)": 5, "": 0}, task=task)
    names = ("math_only", "code_only")
    scores = scored(group, *(spec_of("trl_style.py", name) for name in names))
    assert column(scores, "math_only") == math_only
    assert column(scores, "code_only") == code_only
    assert not any(score.failures for score in scores)


def test_what_a_function_logs_reaches_the_score():
    scores = scored(MATH, spec_of("trl_style.py", "logging"))
    assert column(scores, "logging") == [1.0, 1.0, 0.0]
    assert [score.extra for score in scores] == [
        {"length": length, "truth": "42"} for length in (13, 9, 0)
    ]
    assert all(score.logged == {"mean_length": 22 / 3} for score in scores)


def test_function_knows_how_far_the_run_is():
    state = TrainerState(global_step=30, max_steps=40)
    scores = scored(MATH, spec_of("trl_style.py", "staged"), state=state)
    assert column(scores, "staged") == [0.75] * 3


def test_function_of_an_importable_module(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    settings = Settings(function="trl_style:longest")
    spec = RewardSpec(name="mine", kind="function", settings=settings)
    assert column(scored(MATH, spec), "mine") == [3.0, 5.0, 0.0]


# verl


GSM8K = judged(
    {"6 * 7 #### 42": 4, "I think #### 6": 4, "42": 1},
    data_source="openai/gsm8k",
    reward_model={"style": "rule", "ground_truth": "42"},
    extra_info={"index": 7},
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", [1.0, 0.0, 1.0]),
        ("with_details", [1.0, 0.1, 1.0]),
        ("asynchronous", [13.0, 14.0, 2.0]),
    ],
)
def test_functions_of_verl_run_unchanged(name: str, expected: list[float]):
    scores = scored(GSM8K, spec_of("verl_style.py", name, style="verl"))
    assert column(scores, name or "score") == expected


def test_details_of_verl_become_columns():
    scores = scored(GSM8K, spec_of("verl_style.py", "with_details", style="verl"))
    assert [score.extra for score in scores] == [
        {"acc": True, "pred": "42", "row": 7},
        {"acc": False, "pred": "6", "row": 7},
        {"acc": True, "pred": "42", "row": 7},
    ]


def test_exception_of_verl_costs_one_completion_its_reward():
    group = judged({"#### 42": 1}, data_source="elsewhere")
    (score,) = scored(group, spec_of("verl_style.py", "", style="verl"))
    reason = "NotImplementedError: elsewhere (verl_style.py, line 8)"
    assert score.failures == {"score": reason}


def test_hanging_call_of_verl_costs_its_own_completion_only():
    spec = spec_of("verl_style.py", "hangs_on_six", style="verl", timeout_s=1.0)
    scores = scored(GSM8K, spec)
    assert column(scores, "hangs_on_six") == [1.0, None, 1.0]
    assert scores[1].failures == {"hangs_on_six": "no answer within 1 s"}


# What goes wrong


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raises", "ZeroDivisionError: division by zero (broken.py, line 11)"),
        ("too_few", "it returned 1 values for 3 completions"),
        ("a_number", "it returned float 1.0, not a list of numbers"),
        ("a_text", "it returned str '1.0', not a number"),
        ("leaves", "SystemExit: enough (broken.py, line 54)"),
        ("dies", "its process ended with exit status 3"),
        (
            "logs_too_little",
            "ValueError: log_extra('a') got 1 values for 3 completions (calling.py",
        ),
        (
            "asks_for_more",
            "TypeError: it asks for gold, and the problem has no such column. There "
            "are: completion_ids, completions, ground_truth, kind, log_extra",
        ),
    ],
)
def test_failure_abstains_and_says_why(name: str, reason: str):
    scores = scored(MATH, spec_of("broken.py", name))
    assert column(scores, name) == [None] * 3
    for score in scores:
        assert score.failures[name].startswith(reason)
        assert score.abstain_reason.startswith(f"{name}: {reason}")


def test_value_that_is_not_finite_abstains_alone():
    scores = scored(MATH, spec_of("broken.py", "not_finite"))
    assert column(scores, "not_finite") == [None, None, 1.0]
    assert [score.failures for score in scores] == [
        {"not_finite": "it returned inf, which is not finite"},
        {"not_finite": "it returned nan, which is not finite"},
        {},
    ]


def test_failure_of_one_function_leaves_the_others_alone():
    specs = (spec_of("broken.py", "raises"), spec_of("trl_style.py", "longest"))
    scores = scored(MATH, *specs)
    assert column(scores, "longest") == [3.0, 5.0, 0.0]


def test_column_that_hides_an_argument_is_told():
    group = judged({"a": 1}, completions=["x"])
    (score,) = scored(group, spec_of("trl_style.py", "longest"))
    assert "column 'completions'" in score.failures["longest"]


def test_rows_without_a_verdict_are_not_shown():
    verdicts = (WRONG, infra_verdict("no disk"), WRONG)
    group = dataclasses.replace(MATH, verdicts=verdicts)
    scores = scored(group, spec_of("trl_style.py", "logging"))
    assert column(scores, "logging") == [1.0, None, 0.0]
    assert [score.extra.get("length") for score in scores] == [13, None, 0]
    assert scores[0].logged == {"mean_length": 6.5}


def test_group_without_any_verdict_needs_no_call():
    verdicts = (infra_verdict("no disk"),) * 3
    group = dataclasses.replace(MATH, verdicts=verdicts)
    scores = scored(group, spec_of("broken.py", "dies"))
    assert not any(score.failures for score in scores)


# The process


@pytest.fixture
def process() -> Iterator[FunctionProcess]:
    settings = spec_of("broken.py", "hangs_with_a_child", timeout_s=3.0).settings
    with FunctionProcess(settings) as process:
        yield process


def test_hanging_function_is_ended_with_all_it_started(process: FunctionProcess):
    process.begin(MATH.problem, MATH.completions, TrainerState())
    (returned,) = process.returned()
    assert returned.failures == ("no answer within 3 s",) * 3
    child = int(process.take_output())
    assert becomes_true(lambda: not is_alive(child))


def test_next_call_finds_a_fresh_process():
    group = {"hangs": GSM8K, "fine": judged({"42": 1})}
    settings = spec_of("verl_style.py", "hangs_on_six", style="verl").settings
    settings = dataclasses.replace(settings, timeout_s=0.5)
    with FunctionProcess(settings) as process:
        values = []
        for judged_ in (group["hangs"], group["fine"]):
            process.begin(judged_.problem, judged_.completions, TrainerState())
            values += [returned.values[0] for returned in process.returned()]
    assert [math.isnan(value) for value in values] == [False, True, False, False]


def test_what_a_function_writes_is_kept_in_part_and_told_once():
    with WorkerRewards([spec_of("broken.py", "talks")]) as rewards:
        rewards.earned(MATH, TrainerState())
        (output,) = rewards.take_outputs().values()
        assert output.startswith("how are you?\nvery well\nxxxx")
        assert len(output) <= 4000
        rewards.earned(MATH, TrainerState())
        assert rewards.take_outputs() == {}


def test_traceback_is_among_what_is_told():
    with WorkerRewards([spec_of("broken.py", "raises")]) as rewards:
        rewards.earned(MATH, TrainerState())
        assert "Traceback (most recent call last)" in rewards.take_outputs()["raises"]


def test_process_loads_neither_jax_nor_the_configuration():
    scores = scored(MATH, spec_of("broken.py", "loaded_modules"))
    assert scores[0].extra == {"modules": [], "platform": "cpu"}


def test_no_descriptor_or_process_is_left():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        scored(MATH, spec_of("broken.py", "dies"))
    assert len(os.listdir("/proc/self/fd")) == before


# What cannot be loaded is told before the run


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("absent.py:f", "absent.py: no such file. Correct the path in `function`."),
        ("broken.py:rises", "broken.py has no 'rises'. Did you mean raises?"),
        ("broken.py:Uncalled", "is a class. Make an object of it"),
        ("broken.py:number", "is int, which cannot be called"),
        ("broken.py:by_position", "takes completions by position only"),
        ("no_such_module:f", "there is no module 'no_such_module'. Install it"),
    ],
)
def test_function_that_cannot_be_had_is_told_in_a_line(function: str, message: str):
    place = str(FOLDER / function) if ".py" in function else function
    process = FunctionProcess(Settings(function=place))
    with pytest.raises(ValueError) as caught:
        process.check()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_file_that_fails_while_it_loads_is_told_in_a_line(tmp_path: Path):
    (tmp_path / "mine.py").write_text("import math\nx = math.sqroot(2)\n")
    process = FunctionProcess(Settings(function=f"{tmp_path}/mine.py:f"))
    with pytest.raises(ValueError, match=r"does not load: AttributeError: .*line 2"):
        process.check()


def test_file_may_import_what_lies_beside_it(tmp_path: Path):
    (tmp_path / "beside.py").write_text("VALUE = 7\n")
    (tmp_path / "mine.py").write_text(
        "from beside import VALUE\n"
        "def f(completions, **kwargs):\n    return [VALUE] * len(completions)\n"
    )
    settings = Settings(function=f"{tmp_path}/mine.py:f")
    spec = RewardSpec(name="f", kind="function", settings=settings)
    assert column(scored(MATH, spec), "f") == [7.0] * 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"function": "mine.py"}, "names no function"),
        ({"function": ":f"}, "names no function"),
        ({"function": "mine.py:f", "timeout_s": 0.0}, "timeout_s is 0.0"),
        (
            {"function": "a:b", "style": "verl", "conversational": True},
            "conversational has no effect",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(
    settings: dict[str, Any], message: str
):
    with pytest.raises(ValueError, match=message):
        Settings(**settings)
