import numpy as np
import pytest

from jaxgrpo.host.judge import judge
from jaxgrpo.host.records import Completion, Problem


def completion(text: str) -> Completion:
    return Completion(
        problem_id="p",
        token_ids=np.zeros(1, np.int32),
        text=text,
        token_offsets=np.zeros((1, 2), np.int32),
        finish_reason="length",
        sampler_logprobs=np.zeros(1, np.float32),
    )


def test_output_problem_is_judged_as_a_literal():
    problem = Problem(id="p", kind="output", prompt="", reference="[1, 2]")
    assert judge(problem, completion("[1, 2]")).status == "OK"
    assert judge(problem, completion("[1,2]")).error_class == "wrong_repr"


def test_trace_question_is_judged_as_a_literal():
    problem = Problem(id="p", kind="trace", prompt="", reference="7")
    assert judge(problem, completion("7")).status == "OK"
    assert judge(problem, completion("8")).error_class == "wrong_value"


def test_kind_without_a_judge_is_named():
    problem = Problem(id="p7", kind="essay", prompt="", reference="")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'p7' is of kind 'essay'"):
        judge(problem, completion(""))
