"""Where an answer begins, what ends it, and what may stand in it: all three together.

A marker starts the constraint, the same marker starts the extraction, and a stop string
ends both.
"""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.config import Config, ScorerConfig
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.sampling.constraint import allowed_tokens, replayed_states
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN
from jaxgrpo.host.judge import JudgeSettings, judge
from jaxgrpo.host.judge.passages import Markers
from jaxgrpo.host.records import Completion, Group, Problem
from jaxgrpo.policy import Policy, load_policy
from jaxgrpo.sampling import constraint_tables, drawn_groups, training_engine

MODEL = {"preset": "qwen3-tiny", "tokenizer": "builtin:output_prediction_tokenizer"}
PROBLEM = Problem(id="p", kind="output", prompt="print([1])", reference="[1, True]")
MARKED = {"literal_extraction": "markers"}


def config_of(scorer: dict[str, Any] | None = None, **sampling: Any) -> Config:
    return Config.model_validate(
        {
            "model": MODEL,
            "rewards": {"exact": {}},
            "prompt": {"max_prompt_tokens": 48},
            "scorer": scorer or {},
            "sampling": {"problems_per_step": 4, "group_size": 8, "max_new_tokens": 24}
            | sampling,
        }
    )


def settings_of(scorer: ScorerConfig) -> JudgeSettings:
    return JudgeSettings(
        literal_extraction=scorer.literal_extraction,
        markers=Markers(scorer.answer_opening, scorer.answer_closing),
    )


@pytest.fixture(scope="module")
def policy() -> Policy:
    config = config_of()
    return load_policy(config.model, config.prompt)


@pytest.fixture(scope="module")
def params(policy: Policy) -> Any:
    return initial_params(policy.architecture, jax.random.key(0))


@pytest.fixture
def cached(tmp_path: Any) -> dict[str, str]:
    return {"cache_dir": str(tmp_path)}


def drawn(config: Config, policy: Policy, params: Any) -> list[Completion]:
    problems = [replace(PROBLEM, id=f"p{i}") for i in range(4)]
    groups: list[tuple[int, Group]] = list(
        drawn_groups(
            training_engine(config, policy), params, policy, problems,
            [policy.encode(problem) for problem in problems],
            seed=3, purpose=PURPOSE_TRAIN, step=0, temperature=1.0, policy_step=0,
        )
    )  # fmt: skip
    return [completion for _, group in groups for completion in group.completions]


def is_allowed_at(
    config: Config, policy: Policy, token_ids: list[int]
) -> tuple[list[bool], list[bool]]:
    """Whether the constraint allows each token where it stands, and an end instead."""
    tables = constraint_tables(config, policy)
    assert tables is not None
    budget_B = jnp.array([len(token_ids) + 30])
    states = replayed_states(tables, jnp.array([1]), budget_B, jnp.array([token_ids]))
    allowed_TV = np.asarray(allowed_tokens(tables, states))[0]
    at = np.arange(len(token_ids))
    return (
        allowed_TV[at, token_ids].tolist(),
        allowed_TV[:, policy.eos_ids[0]].tolist(),
    )


def test_marker_that_begins_the_answer_begins_the_constraint(
    policy: Policy, cached: dict[str, str]
):
    config = config_of(
        MARKED,
        constraint="python_literal",
        constraint_after="[ANSWER]",
        constraint_until="[/ANSWER]",
    )
    data = config.data.model_copy(update=cached)
    config = config.model_copy(update={"data": data})
    text = "It is x = 1.[ANSWER][1, True][/ANSWER]"
    ids = policy.tokenizer(text, add_special_tokens=False)["input_ids"]
    ids.append(policy.eos_ids[0])
    is_allowed, may_end = is_allowed_at(config, policy, ids)
    assert all(is_allowed)
    assert may_end == [False] * (len(ids) - 1) + [True]
    prose = policy.tokenizer("[ANSWER]x = 1", add_special_tokens=False)["input_ids"]
    assert not all(is_allowed_at(config, policy, prose)[0])
    # The judge finds what the constraint held to its form.
    completion = written(policy, ids)
    verdict = judge(PROBLEM, completion, settings=settings_of(config.scorer))
    assert (verdict.error_class, verdict.extracted) == ("exact", "[1, True]")


def written(policy: Policy, ids: list[int], **fields: Any) -> Completion:
    text, offsets_T2 = policy.decode(np.array(ids))
    return Completion(
        **{"finish_reason": "eos", "text": text, "token_offsets": offsets_T2} | fields,
        problem_id=PROBLEM.id,
        token_ids=np.array(ids),
        sampler_logprobs=np.zeros(len(ids), np.float32),
    )


def test_closing_marker_may_be_the_stop_string(
    policy: Policy, params: Any, cached: dict[str, str]
):
    config = config_of(
        MARKED,
        constraint=r"regex:[a-c]{0,3}\[ANSWER\][0-9]{1,9}\[/ANSWER\][a-c]*",
        stop=["[/ANSWER]"],
        max_new_tokens=40,
    )
    data = config.data.model_copy(update=cached)
    config = config.model_copy(update={"data": data})
    settings = settings_of(config.scorer)
    completions = drawn(config, policy, params)
    reasons = {c.finish_reason for c in completions}
    assert reasons == {"stop"}, "the budget suffices for all"
    for completion in completions:
        assert completion.stop == "[/ANSWER]"
        assert "[/ANSWER]" not in completion.text
        verdict = judge(PROBLEM, completion, settings=settings)
        assert verdict.extracted.isdecimal()
        assert verdict.error_class in ("wrong_value", "not_one_literal")  # as 007 is
        (span,) = verdict.spans
        assert completion.text[span.start : span.end] == verdict.extracted
        assert span.end == len(completion.text)
        # Cut at the same place by its budget, it would have no answer.
        cut = replace(completion, finish_reason="length", stop="")
        assert judge(PROBLEM, cut, settings=settings).error_class == "unclosed_answer"


def test_other_stop_strings_close_no_answer(policy: Policy):
    ids = policy.tokenizer("[ANSWER][1, True]", add_special_tokens=False)["input_ids"]
    settings = settings_of(config_of(MARKED).scorer)
    for stop, error_class in (("\n", "unclosed_answer"), ("[/ANSWER]", "exact")):
        completion = written(policy, ids, finish_reason="stop", stop=stop)
        assert judge(PROBLEM, completion, settings=settings).error_class == error_class


def test_stop_string_that_begins_the_answer_is_refused():
    with pytest.raises(ValueError, match=r"before any answer. Stop at .*\[/ANSWER\]"):
        config_of(MARKED, stop=["[ANSWER]"])


def test_markers_that_nothing_looks_for_are_refused():
    with pytest.raises(ValueError, match="no extraction of scorer is 'markers'"):
        config_of({"answer_opening": "<answer>"})
    config_of({**MARKED, "answer_opening": "<answer>", "answer_closing": ""})
