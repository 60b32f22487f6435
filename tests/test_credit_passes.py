"""What passes for credit are given: the answer's tokens, and what a teacher reads."""

from typing import Any, get_args

import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.config import Config
from jaxgrpo.credit_passes import (
    PASSES,
    answer_tokens,
    check_reference_length,
    credit_pass,
    masking_token,
    teachers_of,
)
from jaxgrpo.host.judge import JudgeSettings
from jaxgrpo.host.records import Completion, Group, Problem, Score, Verdict
from jaxgrpo.host.references import RIGHT, WRONG
from jaxgrpo.policy import Policy, load_policy

OK = Verdict(status="OK", error_class="exact")
WA = Verdict(status="WA", error_class="wrong_value")
MARKED = JudgeSettings(literal_extraction="markers")
WIDTH = 512


def config_of(**experimental: Any) -> Config:
    model = {"preset": "qwen3-tiny", "tokenizer": "builtin:output_prediction_tokenizer"}
    return Config.model_validate(
        {"model": model, "rewards": {"exact": {}}, "experimental": experimental}
    )


@pytest.fixture(scope="module")
def policy() -> Policy:
    config = config_of()
    return load_policy(config.model, config.prompt)


def group_of(policy: Policy, name: str, rows: list[tuple[str, Verdict]]) -> Group:
    problem = Problem(id=name, kind="output", prompt=f"print({name!r})", reference="")
    completions = []
    for sample, (text, _) in enumerate(rows):
        token_ids = np.asarray(
            policy.tokenizer(text, add_special_tokens=False)["input_ids"], np.int32
        )
        decoded, offsets = policy.decode(token_ids)
        assert decoded == text
        completions.append(
            Completion(
                problem_id=name,
                token_ids=token_ids,
                text=text,
                token_offsets=offsets,
                finish_reason="eos",
                sampler_logprobs=np.zeros(len(token_ids), np.float32),
                sample=sample,
            )
        )
    return Group(
        problem=problem,
        prompts=(policy.encode(problem),),
        completions=tuple(completions),
        scores=tuple(Score(rewards={"exact": 1.0}, verdict=v) for _, v in rows),
    )


def test_the_answers_tokens_are_those_that_wrote_it(policy):
    text = "x = 2, so [ANSWER] 42 [/ANSWER] it is"
    group = group_of(policy, "a", [(text, OK), ("none at all", WA)])
    answers_B2 = answer_tokens([group], MARKED, 3)
    first, end = answers_B2[0]
    offsets = group.completions[0].token_offsets
    written = text[offsets[first][0] : offsets[end - 1][1]]
    assert written.strip() == "42"
    np.testing.assert_array_equal(answers_B2[1:], 0)
    whole = answer_tokens([group_of(policy, "b", [("[1, 2]", OK)])], JudgeSettings(), 1)
    assert whole.tolist() == [
        [0, len(policy.tokenizer("[1, 2]", add_special_tokens=False)["input_ids"])]
    ]


@pytest.fixture(scope="module")
def groups(policy) -> list[Group]:
    """Groups with two, no, one and four right completions of four."""
    counts = {"two": 2, "none": 0, "one": 1, "all": 4}
    return [
        group_of(policy, name, [(f"[{i}]", OK if i < n else WA) for i in range(4)])
        for name, n in counts.items()
    ]


def test_teachers_read_another_completion_of_the_group(groups, policy):
    teachers, shares = teachers_of(groups, policy, num_rows=18, num_positions=WIDTH)
    np.testing.assert_array_equal(teachers.is_mixed_B, np.arange(18) < 4)
    np.testing.assert_array_equal(
        teachers.is_explored_B, np.isin(np.arange(18), [5, 6, 7])
    )
    read = [
        policy.tokenizer.decode(np.asarray(ids)[:length])
        for ids, length in zip(teachers.token_ids_BS, teachers.lengths_B, strict=True)
    ]
    shown = [RIGHT.format(text=f"[{i}]") for i in (1, 0, 0, 0)]
    shown += [WRONG.format(text="[0]")] * 4
    for row in (0, 1, 2, 3, 5, 6, 7):
        assert shown[row] in read[row]
        assert "print(" in read[row]
    assert np.asarray(teachers.lengths_B)[[4, *range(8, 18)]].tolist() == [1] * 11
    assert shares == {
        "experimental/sc_grpo/mixed": 0.25,
        "experimental/sc_grpo/explored": 0.25,
        "experimental/sc_grpo/plain": 0.5,
        "experimental/sc_grpo/too_long": 0.0,
    }


def test_a_prompt_that_does_not_fit_leaves_its_group_plain(groups, policy):
    teachers, shares = teachers_of(groups, policy, num_rows=16, num_positions=8)
    assert not np.asarray(teachers.is_mixed_B | teachers.is_explored_B).any()
    assert shares["experimental/sc_grpo/too_long"] == 0.5
    _, shares = teachers_of(
        groups, policy, num_rows=16, num_positions=WIDTH, explores=False
    )
    assert shares["experimental/sc_grpo/plain"] == 0.75


def test_prompts_beyond_the_models_positions_are_refused(policy):
    limit = policy.architecture.max_positions
    config = config_of(method="sc_grpo", reference_tokens=limit)
    with pytest.raises(ValueError, match=f"reference_tokens {limit} .* exceeds"):
        check_reference_length(config, policy)


@pytest.mark.parametrize("method", ["none", "s_trace"])
def test_without_a_pass_the_scores_stay_what_they_are(method, policy):
    compute = credit_pass(config_of(method=method), policy)
    scored: Any = object()
    prompts: Any = jnp.zeros(1)
    assert compute({}, (prompts, prompts, scored), [], 1.0) == (scored, {})


def test_every_method_has_its_pass_and_a_token_to_mask_with(policy):
    field = type(config_of().experimental).model_fields["method"]
    assert set(PASSES) == set(get_args(field.annotation))
    assert 0 <= masking_token(policy) < policy.num_tokens
