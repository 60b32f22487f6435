"""Records of the host to arrays of the device, and back without loss."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.batching import (
    draws_of,
    prompt_arrays,
    rows_of_completions,
    update_arrays,
)
from jaxgrpo.config import ModelConfig, PromptConfig
from jaxgrpo.device.records import FINISH_REASONS, Rollouts
from jaxgrpo.device.sampling.keys import row_keys
from jaxgrpo.host.prompts import stable_hash
from jaxgrpo.host.records import Completion, Group, Problem, Prompt, Score
from jaxgrpo.policy import Policy, load_policy

P, G, S, T = 6, 3, 40, 5
REWARDS = ["exact", "similarity"]
KEY_OF: dict[str, Any] = {"seed": 3, "purpose": 0, "step": 7}

PROBLEMS = [
    Problem(id=f"p{i}", kind="output", prompt=f"def f(x):\n    return x\nf({i})",
            reference=str(i))
    for i in range(4)
]  # fmt: skip


@pytest.fixture(scope="module")
def policy() -> Policy:
    model = ModelConfig(
        preset="qwen3-tiny", tokenizer="builtin:output_prediction_tokenizer"
    )
    return load_policy(model, PromptConfig())


@pytest.fixture(scope="module")
def prompts(policy) -> list[Prompt]:
    return [policy.encode(problem) for problem in PROBLEMS]


@pytest.fixture(scope="module")
def groups(policy, prompts) -> list[Group]:
    """Completions of every length, as the sampler would hand them over."""
    rng = np.random.default_rng(0)

    def completion(prompt: Prompt, sample: int) -> Completion:
        # The longest ends by its budget, the others with an end token.
        length = int(rng.integers(1, T + 1)) if sample else T
        token_ids = rng.integers(40, 300, length).astype(np.int32)
        if length < T:
            token_ids[-1] = policy.eos_ids[0]
        text, offsets = policy.decode(token_ids)
        return Completion(
            problem_id=prompt.problem_id,
            token_ids=token_ids,
            text=text,
            token_offsets=offsets,
            finish_reason="eos" if length < T else "length",
            sampler_logprobs=-rng.random(length).astype(np.float32),
            policy_step=11,
            sample=sample,
            budget=max(length, T - sample),
        )

    return [
        Group(
            problem=problem,
            prompts=(prompt,),
            completions=tuple(completion(prompt, sample) for sample in range(G)),
        )
        for problem, prompt in zip(PROBLEMS, prompts, strict=True)
    ]


def scored(group: Group) -> Group:
    """The group with rewards that tell every completion from every other."""
    scores = [
        Score(rewards={"exact": float(c.sample), "similarity": float(len(c.text))})
        for c in group.completions
    ]
    return replace(group, scores=tuple(scores))


def arrays_of(
    groups: list[Group], num_rows: int = P * G, *, has_factors: bool = False
) -> Any:
    return update_arrays(
        groups,
        REWARDS,
        **KEY_OF,
        num_prompts=P,
        num_rows=num_rows,
        num_positions=S,
        num_columns=T,
        has_factors=has_factors,
    )


def key_data(rollouts: Rollouts) -> np.ndarray:
    return np.asarray(jax.random.key_data(rollouts.row_key_B))


# Prompts


def test_prompts_are_padded_on_the_right(prompts):
    arrays = prompt_arrays(prompts, num_prompts=P, num_positions=S)
    for row, prompt in enumerate(prompts):
        length = len(prompt.token_ids)
        assert arrays.lengths_P[row] == length
        assert arrays.token_ids_PS[row, :length].tolist() == prompt.token_ids.tolist()
        assert not arrays.token_ids_PS[row, length:].any()
    assert arrays.lengths_P[len(prompts) :].tolist() == [1] * (P - len(prompts))


def test_a_prompt_that_does_not_fit_is_never_cut(prompts):
    length = max(len(prompt.token_ids) for prompt in prompts)
    with pytest.raises(AssertionError, match=f"{length} tokens in {length - 1}"):
        prompt_arrays(prompts, num_prompts=P, num_positions=length - 1)


def test_a_problem_that_comes_twice_is_another_draw():
    twice = [PROBLEMS[0], PROBLEMS[1], PROBLEMS[0], PROBLEMS[0]]
    assert draws_of(twice) == [0, 0, 1, 2]


# From groups to an update


def test_arrays_hold_what_the_completions_do(groups, prompts):
    actual_prompts, rollouts, rewards = arrays_of([scored(group) for group in groups])
    expected = prompt_arrays(prompts, num_prompts=P, num_positions=S)
    jax.tree.map(np.testing.assert_array_equal, actual_prompts, expected)
    completions = [c for group in groups for c in group.completions]
    num_real = len(completions)
    assert rollouts.is_real_B.tolist() == [True] * num_real + [False] * (
        P * G - num_real
    )
    for row, completion in enumerate(completions):
        length = len(completion.token_ids)
        for name, values in [
            ("completion_BT", completion.token_ids),
            ("sampler_logprobs_BT", completion.sampler_logprobs),
        ]:
            found = np.asarray(getattr(rollouts, name)[row])
            np.testing.assert_array_equal(found[:length], values)
            assert not found[length:].any()
        assert rollouts.lengths_B[row] == length
        reason = FINISH_REASONS[int(rollouts.finish_reason_B[row])]
        assert reason == completion.finish_reason
        assert rollouts.policy_step_B[row] == 11
        assert rollouts.budget_B[row] == completion.budget
        assert rollouts.prompt_index_B[row] == rollouts.group_id_B[row] == row // G
    assert rollouts.kept_BTk is None
    assert rewards.rewards_BR[:num_real, 0].tolist() == [0.0, 1.0, 2.0] * len(PROBLEMS)
    assert rewards.credit_BT is None


def test_rows_have_the_keys_they_were_drawn_with(groups):
    again = replace(groups[1], completions=tuple(
        replace(completion, draw=1) for completion in groups[1].completions
    ))  # fmt: skip
    _, rollouts, _ = arrays_of([scored(groups[0]), scored(again)])
    hashes = [stable_hash(PROBLEMS[index].id) for index in [0] * G + [1] * G]
    expected_B = row_keys(
        **KEY_OF,
        problem_hash_B2=jnp.array(hashes, jnp.uint32),
        draw_B=jnp.array([0] * G + [1] * G),
        sample_B=jnp.array([*range(G)] * 2),
    )
    assert (rollouts.row_key_B[: 2 * G] == expected_B).all()
    assert len(np.unique(key_data(rollouts)[: 2 * G], axis=0)) == 2 * G


def with_kept(group: Group, width: int) -> Group:
    """The group as if its tokens had been drawn from a few ids."""
    completions = [
        replace(c, kept_ids=np.stack([c.token_ids + i for i in range(width)], axis=1))
        for c in group.completions
    ]
    return replace(group, completions=tuple(completions))


def test_the_ids_that_tokens_were_drawn_from_come_along(groups):
    _, rollouts, _ = arrays_of([scored(with_kept(group, 4)) for group in groups])
    assert rollouts.kept_BTk.shape == (P * G, T, 4)
    for row, completion in enumerate(c for g in groups for c in g.completions):
        kept_Tk = np.asarray(rollouts.kept_BTk[row])
        length = len(completion.token_ids)
        np.testing.assert_array_equal(kept_Tk[:length, 2], completion.token_ids + 2)
        assert not kept_Tk[length:].any()


def test_completions_truncated_in_different_ways_are_refused(groups):
    with pytest.raises(
        AssertionError, match="3 of 6 completions are truncated, to .4. ids"
    ):
        arrays_of([scored(with_kept(groups[0], 4)), scored(groups[1])])


def test_a_constraint_without_a_budget_cannot_be_replayed(groups):
    completions = [replace(c, constraint_id=1, budget=0) for c in groups[0].completions]
    group = replace(groups[0], completions=tuple(completions))
    with pytest.raises(AssertionError, match="problem 'p0' .* budget is not known"):
        arrays_of([scored(group)])


def test_padding_rows_and_prompts_are_in_range(groups):
    prompts, rollouts, rewards = arrays_of([scored(groups[0])])
    is_padding_B = ~rollouts.is_real_B
    assert is_padding_B.sum() == P * G - G
    assert (prompts.lengths_P[1:] == 1).all()
    assert (rollouts.lengths_B[is_padding_B] == 0).all()
    assert (rollouts.prompt_index_B < P).all() and (rollouts.prompt_index_B >= 0).all()
    assert (rollouts.group_id_B < P * G).all() and (rollouts.group_id_B >= 0).all()
    assert np.isfinite(rewards.rewards_BR).all()


def test_ragged_groups_keep_their_rows_and_ids(groups):
    small = replace(groups[0], completions=groups[0].completions[1:2])
    middle = replace(groups[1], completions=groups[1].completions[:2])
    _, rollouts, _ = arrays_of([scored(g) for g in (small, middle, groups[2])])
    assert rollouts.is_real_B.sum() == 6
    assert rollouts.group_id_B[:6].tolist() == [0, 1, 1, 2, 2, 2]
    assert rollouts.prompt_index_B[:6].tolist() == [0, 1, 1, 2, 2, 2]
    _, whole, _ = arrays_of([scored(g) for g in groups])
    # The second sample of the first problem keeps its key: it is still that sample.
    assert (key_data(rollouts)[0] == key_data(whole)[1]).all()


def test_a_replayed_completion_keeps_the_policy_it_came_from(groups):
    old = replace(groups[1].completions[0], policy_step=2)
    group = replace(groups[1], completions=(*groups[1].completions[1:], old))
    _, rollouts, _ = arrays_of([scored(groups[0]), scored(group)])
    assert rollouts.policy_step_B[: 2 * G].tolist() == [11] * (2 * G - 1) + [2]
    length = len(old.token_ids)
    row = rollouts.sampler_logprobs_BT[2 * G - 1]
    np.testing.assert_array_equal(row[:length], old.sampler_logprobs)
    assert not row[length:].any()


def with_hints(group: Group, variants: list[str]) -> Group:
    """The group with a second prompt, and completions of the named variants."""
    (plain,) = group.prompts
    hinted = replace(plain, variant="hint-1", token_ids=plain.token_ids[::-1].copy())
    completions = [
        replace(completion, prompt_variant=variant)
        for completion, variant in zip(group.completions, variants, strict=True)
    ]
    return replace(group, prompts=(plain, hinted), completions=tuple(completions))


def test_rows_are_ordered_by_prompt_and_share_their_group(groups):
    mixed = with_hints(groups[0], ["hint-1", "", "hint-1"])
    prompts, rollouts, rewards = arrays_of([scored(mixed), scored(groups[1])])
    assert rollouts.prompt_index_B[:6].tolist() == [0, 1, 1, 2, 2, 2]
    assert rollouts.group_id_B[:6].tolist() == [0, 0, 0, 1, 1, 1]
    assert rewards.rewards_BR[:3, 0].tolist() == [1.0, 0.0, 2.0]
    plain, hinted = mixed.prompts
    length = len(plain.token_ids)
    assert prompts.token_ids_PS[0, :length].tolist() == plain.token_ids.tolist()
    assert prompts.token_ids_PS[1, :length].tolist() == hinted.token_ids.tolist()


def test_rows_can_be_mapped_back_to_completions(groups):
    mixed = with_hints(groups[1], ["hint-1", "", "hint-1"])
    some = [scored(groups[0]), scored(mixed), scored(groups[2])]
    rows = rows_of_completions(some)
    assert rows.tolist() == [0, 1, 2, 4, 3, 5, 6, 7, 8]
    _, rollouts, rewards = arrays_of(some)
    members = [
        (completion, score)
        for group in some
        for completion, score in zip(group.completions, group.scores, strict=True)
    ]
    for row, (completion, score) in zip(rows, members, strict=True):
        length = len(completion.token_ids)
        found = rollouts.completion_BT[row, :length]
        assert found.tolist() == completion.token_ids.tolist()
        assert rewards.rewards_BR[row].tolist() == list(score.rewards.values())


def test_a_problem_in_two_groups_has_two_prompts_and_baselines(groups):
    again = replace(groups[0], completions=groups[0].completions[::-1])
    some = [scored(groups[0]), scored(groups[1]), scored(again)]
    prompts, rollouts, _ = arrays_of(some)
    # Prompt-major, as the fused step relies on: row b continues prompt b // G.
    assert rollouts.prompt_index_B[:9].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert rollouts.group_id_B[:9].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    np.testing.assert_array_equal(prompts.token_ids_PS[0], prompts.token_ids_PS[2])


def test_abstaining_rewards_arrive_as_nan(groups):
    group = scored(groups[0])
    nothing = Score(rewards=dict.fromkeys(REWARDS, float("nan")))
    group = replace(group, scores=(nothing, *group.scores[1:]))
    _, _, rewards = arrays_of([group])
    assert np.isnan(rewards.rewards_BR[0]).all()
    assert np.isfinite(rewards.rewards_BR[1:]).all()


def test_missing_logprobs_are_refused(groups):
    def cut(completion: Completion) -> Completion:
        return replace(completion, sampler_logprobs=np.zeros(1, np.float32))

    longest = max(groups, key=lambda g: len(g.completions[0].token_ids))
    assert len(longest.completions[0].token_ids) > 1
    first, *others = longest.completions
    broken = replace(longest, completions=(cut(first), *others))
    with pytest.raises(AssertionError, match="1 log-probs for . tokens of problem"):
        arrays_of([scored(broken)])


def test_more_rows_than_the_batch_holds_are_refused(groups):
    with pytest.raises(AssertionError, match="12 completions, 8 rows"):
        arrays_of([scored(group) for group in groups], num_rows=8)


def test_factors_of_advantages_become_credit(groups):
    halved = replace(
        groups[0],
        scores=tuple(
            replace(score, advantage_factor=0.5) for score in scored(groups[0]).scores
        ),
    )
    *_, with_factors = arrays_of([halved, scored(groups[1])], has_factors=True)
    assert with_factors.credit_BT[:, 0].tolist()[: 2 * G] == [0.5] * G + [1.0] * G
    with pytest.raises(AssertionError, match="would be lost"):
        arrays_of([halved, scored(groups[1])])
