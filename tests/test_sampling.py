"""From problems to groups: settings of the engine, and records of what it drew."""

import ast
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.batching import update_arrays
from jaxgrpo.config import Config
from jaxgrpo.device.head import TokenConstraint, token_logprobs
from jaxgrpo.device.model.decoder import bind, forward_completions, initial_params
from jaxgrpo.device.sampling.choose import Choice
from jaxgrpo.device.sampling.constraint import replayed_states
from jaxgrpo.device.sampling.keys import PURPOSE_TRAIN
from jaxgrpo.host.records import Group, Problem, Score
from jaxgrpo.policy import Policy, load_policy
from jaxgrpo.sampling import build_engine, drawn_groups, training_engine

PROBLEMS = [
    Problem(id=f"p{i % 3}", kind="output", prompt=f"print({i % 3})", reference="")
    for i in range(4)
]
"""The last one is the first again."""
LITERAL_TOKENS = 24


def config_of(**sampling: Any) -> Config:
    model = {"preset": "qwen3-tiny", "tokenizer": "builtin:output_prediction_tokenizer"}
    return Config.model_validate(
        {
            "model": model,
            "rewards": {"exact": {}},
            "prompt": {"max_prompt_tokens": 48},
            "sampling": {"problems_per_step": 4, "group_size": 3, "max_new_tokens": 6}
            | sampling,
        }
    )


@pytest.fixture(scope="module")
def policy() -> Policy:
    config = config_of()
    # A tenth of all tokens ends a completion, so that lengths differ.
    policy = load_policy(config.model, config.prompt)
    return replace(policy, eos_ids=(*policy.eos_ids, *range(40)))


@pytest.fixture(scope="module")
def params(policy: Policy) -> Any:
    return initial_params(policy.architecture, jax.random.key(0))


def draw(policy: Policy, params: Any, **sampling: Any) -> list[tuple[int, Group]]:
    config = config_of(**sampling)
    prompts = [policy.encode(problem) for problem in PROBLEMS]
    return list(
        drawn_groups(
            training_engine(config, policy), params, policy, PROBLEMS, prompts,
            seed=3, purpose=PURPOSE_TRAIN, step=7, temperature=1.0, policy_step=11,
        )
    )  # fmt: skip


@pytest.fixture(scope="module")
def drawn(policy: Policy, params: Any) -> list[tuple[int, Group]]:
    return draw(policy, params, slots=2)


def test_settings_come_from_the_configuration(policy: Policy) -> None:
    config = config_of(
        slots=2, rows_per_problem=1, segment_tokens=5, top_k=9, top_p=0.9, min_p=0.1
    )
    settings = training_engine(config, policy).settings
    assert (settings.num_slots, settings.rows_per_slot, settings.group_size) == (
        2,
        1,
        3,
    )
    assert (settings.max_prompt_tokens, settings.max_new_tokens) == (48, 6)
    assert settings.segment_steps == 5
    assert settings.choice == Choice(top_k=9, top_p=0.9, min_p=0.1)
    assert (settings.eos_ids, settings.num_tokens) == (
        policy.eos_ids,
        policy.num_tokens,
    )
    assert settings.cache_dtype == policy.forward.dtype


def test_by_default_all_completions_of_a_step_are_in_flight(policy: Policy) -> None:
    settings = training_engine(config_of(), policy).settings
    assert (settings.num_slots, settings.rows_per_slot) == (4, 3)


def test_a_greedy_engine_does_not_truncate(policy: Policy) -> None:
    engine = build_engine(
        config_of(top_k=9), policy, group_size=1, num_slots=2, is_greedy=True
    )
    assert engine.settings.choice == Choice(is_greedy=True)


def test_platforms_other_than_the_cpu_prefill_more_at_once(policy: Policy) -> None:
    here = training_engine(config_of(), policy)
    there = training_engine(config_of(), policy, platform="tpu")
    assert here.settings.prefill_tokens < there.settings.prefill_tokens


def test_groups_hold_what_was_drawn(
    policy: Policy, drawn: list[tuple[int, Group]]
) -> None:
    assert sorted(index for index, _ in drawn) == [0, 1, 2, 3]
    for index, group in drawn:
        assert group.problem is PROBLEMS[index]
        (prompt,) = group.prompts
        assert prompt.text == policy.encode(PROBLEMS[index]).text
        assert [c.sample for c in group.completions] == [0, 1, 2]
        for completion in group.completions:
            length = len(completion.token_ids)
            assert completion.sampler_logprobs.shape == (length,)
            assert completion.token_offsets.shape == (length, 2)
            assert completion.text == policy.decode(completion.token_ids)[0]
            assert completion.policy_step == 11
            assert completion.kept_ids is None
            is_ended = int(completion.token_ids[-1]) in policy.eos_ids
            assert completion.finish_reason == ("eos" if is_ended else "length")


def test_a_problem_that_comes_twice_is_drawn_anew(
    drawn: list[tuple[int, Group]],
) -> None:
    groups = dict(drawn)
    assert {c.draw for c in groups[0].completions} == {0}
    assert {c.draw for c in groups[3].completions} == {1}
    first, again = (
        [tuple(c.token_ids) for c in groups[index].completions] for index in (0, 3)
    )
    assert first != again


def test_a_stop_string_is_cut_from_the_text_but_not_from_the_tokens(
    policy: Policy, params: Any, drawn: list[tuple[int, Group]]
) -> None:
    # Characters that the untrained model writes now and then.
    whole = {(index, c.sample): c for index, group in drawn for c in group.completions}
    texts = "".join(c.text for c in whole.values())
    stop = tuple({texts[len(texts) // 3], texts[2 * len(texts) // 3]})
    num_stopped = 0
    for index, group in draw(policy, params, slots=2, stop=stop):
        for completion in group.completions:
            before = whole[index, completion.sample]
            length = len(completion.token_ids)
            np.testing.assert_array_equal(
                completion.token_ids, before.token_ids[:length]
            )
            assert not any(text in completion.text for text in stop)
            assert before.text.startswith(completion.text)
            assert completion.token_offsets.max() <= len(completion.text)
            if completion.finish_reason == "stop":
                num_stopped += 1
                decoded, _ = policy.decode(completion.token_ids)
                assert any(text in decoded for text in stop)
            else:
                assert length == len(before.token_ids)
    assert num_stopped > 0


def test_truncated_samples_carry_the_ids_they_were_drawn_from(
    policy: Policy, params: Any
) -> None:
    for _, group in draw(policy, params, top_k=5):
        for completion in group.completions:
            assert completion.kept_ids is not None
            assert completion.kept_ids.shape == (len(completion.token_ids), 5)
            is_among_T = (completion.kept_ids == completion.token_ids[:, None]).any(1)
            assert is_among_T.all()


@pytest.fixture(scope="module")
def literals(
    policy: Policy, params: Any, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, list[Group]]:
    """The constraint's tables, and what a random model draws under it."""
    config = config_of(
        constraint="python_literal", max_new_tokens=LITERAL_TOKENS, group_size=8
    )
    folder = str(tmp_path_factory.mktemp("constraints"))
    data = config.data.model_copy(update={"cache_dir": folder})
    config = config.model_copy(update={"data": data})
    # Without the tokens that end a completion above: they write text here.
    policy = replace(policy, eos_ids=policy.eos_ids[:1])
    engine = training_engine(config, policy)
    prompts = [policy.encode(problem) for problem in PROBLEMS]
    drawn = drawn_groups(
        engine, params, policy, PROBLEMS, prompts,
        seed=3, purpose=PURPOSE_TRAIN, step=7, temperature=1.0, policy_step=0,
    )  # fmt: skip
    return engine.constraints, [group for _, group in drawn]


def test_a_constrained_completion_is_of_its_form(
    literals: tuple[Any, list[Group]],
) -> None:
    completions = [c for group in literals[1] for c in group.completions]
    assert {(c.constraint_id, c.budget) for c in completions} == {(1, LITERAL_TOKENS)}
    # The budget sufficed for all of them.
    assert {c.finish_reason for c in completions} == {"eos"}
    values = {repr(ast.literal_eval(completion.text)) for completion in completions}
    assert len(values) > 10


def test_the_trainer_renormalises_over_what_the_constraint_allowed(
    policy: Policy, params: Any, literals: tuple[Any, list[Group]]
) -> None:
    tables, groups = literals
    arrays = update_arrays(
        [
            replace(group, scores=(Score(rewards={}),) * len(group.completions))
            for group in groups
        ],
        [], seed=3, purpose=PURPOSE_TRAIN, step=7, num_prompts=4, num_rows=32,
        num_positions=48, num_columns=LITERAL_TOKENS,
    )  # fmt: skip

    @jax.jit
    def logprobs(params: Any, prompts: Any, rollouts: Any, tables: Any) -> Any:
        model = bind(policy.architecture, params, jnp.dtype("float32"))
        hidden_BTD = forward_completions(
            model, prompts, rollouts.completion_BT, rollouts.prompt_index_B
        )
        is_token_BT = jnp.arange(LITERAL_TOKENS)[None] < rollouts.lengths_B[:, None]
        states = replayed_states(
            tables,
            rollouts.constraint_id_B,
            rollouts.budget_B,
            rollouts.completion_BT,
        )
        return token_logprobs(
            hidden_BTD, model.output_head_VD, rollouts.completion_BT,
            num_tokens=policy.num_tokens, mask_BT=is_token_BT, chunk=1024,
            constraint=TokenConstraint(tables, states),
        ).logprobs_BT  # fmt: skip

    ours_BT = logprobs(params, arrays[0], arrays[1], tables)
    np.testing.assert_allclose(
        ours_BT, arrays[1].sampler_logprobs_BT, rtol=0, atol=1e-5
    )
    # Most tokens are not allowed at most places: without it they would be likelier.
    assert float(np.exp(arrays[1].sampler_logprobs_BT).max()) > 0.5
