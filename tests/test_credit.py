"""Blame in the update: every mode keeps the row's advantage, and where it falls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgrpo.batching import rows_of_completions, update_arrays
from jaxgrpo.device.objective.credit import SpanCredit, focused_credit
from jaxgrpo.device.objective.loss import grpo_loss
from jaxgrpo.device.objective.masks import completion_mask
from jaxgrpo.device.update_metrics import focus_metrics
from jaxgrpo.host.records import Blame, Completion, Group, Problem, Prompt, Score, Span

T = 12
SPAN = Span(start=0, end=1, label="blame")
BLAMES: dict[str, Blame | None] = {
    "correct": Blame(mode="correct"),
    "constraint": Blame(mode="constraint", broken=("imports",)),
    "syntax": Blame(mode="syntax", span=SPAN, tokens=(2, 5)),
    "syntax without a line": Blame(mode="syntax", fallback="no_line"),
    "logic": Blame(mode="logic", span=SPAN, tokens=(6, 7)),
    "logic at the end": Blame(mode="logic", span=SPAN, tokens=(8, 9)),
    "logic of the result": Blame(
        mode="logic", span=SPAN, tokens=(0, 3), fallback="no_divergence"
    ),
    "no blame": None,
}
LENGTHS = dict(zip(BLAMES, [3, 12, 7, 1, 11, 9, 5, 4], strict=True))


def group() -> Group:
    """A completion of each mode, all of one problem."""
    problem = Problem(id="p", kind="call", prompt="", reference="")
    prompt = Prompt(problem_id="p", text="", token_ids=np.zeros(2, np.int32))
    completions = [
        Completion(
            problem_id="p", token_ids=np.ones(length, np.int32), text="",
            token_offsets=np.zeros((length, 2), np.int32), finish_reason="eos",
            sampler_logprobs=np.zeros(length, np.float32), sample=sample,
        )
        for sample, length in enumerate(LENGTHS.values())
    ]  # fmt: skip
    scores = [
        Score(rewards={"tests": float(name == "correct")}, blame=blame)
        for name, blame in BLAMES.items()
    ]
    return Group(
        problem=problem, prompts=(prompt,), completions=tuple(completions),
        scores=tuple(scores),
    )  # fmt: skip


def arrays(*, has_focus: bool):
    return update_arrays(
        [group()], ["tests"], seed=0, purpose=0, step=0, num_prompts=1,
        num_rows=len(BLAMES) + 1, num_positions=4, num_columns=T, has_focus=has_focus,
    )  # fmt: skip


def credited(advantage: float) -> tuple[SpanCredit, np.ndarray, np.ndarray]:
    """Credit where all rows have an advantage; mask and focus, in order of BLAMES."""
    _, rollouts, scored = arrays(has_focus=True)
    assert scored.focus_B2 is not None
    mask_BT = completion_mask(rollouts.lengths_B, T)
    advantages_B = jnp.full(len(BLAMES) + 1, advantage, jnp.float32)
    focused = focused_credit(scored.focus_B2, mask_BT, advantages_B)
    rows = rows_of_completions([group()])
    picked = SpanCredit(focused.credit_BT[rows], focused.is_focused_B[rows])
    return picked, np.asarray(mask_BT)[rows], np.asarray(scored.focus_B2)[rows]


@pytest.mark.parametrize("advantage", [-1.7, -1e-3, 0.0, 0.3, 2.1])
def test_the_credits_of_a_row_add_up_to_its_advantage(advantage: float):
    """With `sequence_mean` a token's share is A credit_t / |o|."""
    focused, mask_BT, _ = credited(advantage)
    lengths_B1 = mask_BT.sum(axis=1, keepdims=True)
    shares_BT = advantage * np.asarray(focused.credit_BT, np.float64) / lengths_B1
    np.testing.assert_allclose(shares_BT.sum(axis=1), advantage, rtol=0, atol=1e-6)
    assert (shares_BT[~mask_BT] == 0).all()


def test_a_negative_advantage_falls_on_the_tokens_of_the_span():
    focused, mask_BT, _ = credited(-1.0)
    for row, (name, blame) in enumerate(BLAMES.items()):
        credit_T = np.asarray(focused.credit_BT[row])
        tokens = None if blame is None else blame.tokens
        first, end = tokens or (0, LENGTHS[name])
        expected_T = np.zeros(T)
        expected_T[first:end] = LENGTHS[name] / (end - first)
        np.testing.assert_allclose(credit_T, expected_T, rtol=1e-6)
        assert focused.is_focused_B[row] == (tokens is not None)


def test_a_positive_advantage_is_uniform():
    focused, mask_BT, _ = credited(0.5)
    np.testing.assert_array_equal(focused.credit_BT, mask_BT)
    assert not focused.is_focused_B.any()


def test_gradients_reach_the_tokens_of_the_span_alone():
    focused, mask_BT, focus_B2 = credited(-1.0)

    def loss(logprobs_BT):
        return grpo_loss(logprobs_BT, -1.0 * focused.credit_BT, jnp.asarray(mask_BT))[0]

    slopes_BT = jax.jit(jax.grad(loss))(jnp.full(mask_BT.shape, -1.0))
    positions_T = np.arange(T)
    for slope_T, (first, end), mask_T in zip(slopes_BT, focus_B2, mask_BT, strict=True):
        is_inside_T = (positions_T >= first) & (positions_T < end)
        expected_T = is_inside_T if end > first else mask_T
        np.testing.assert_array_equal(slope_T != 0, expected_T)
    np.testing.assert_allclose(slopes_BT.sum(axis=1), 1 / len(BLAMES), rtol=1e-5)


def test_metrics_tell_who_is_focused_and_who_is_spared():
    _, rollouts, scored = arrays(has_focus=True)
    assert scored.focus_B2 is not None
    mask_BT = completion_mask(rollouts.lengths_B, T)
    advantages_B = jnp.where(jnp.arange(len(BLAMES) + 1) < 5, 1.0, -1.0)
    for size, share in ((1.0, 2 / 8), (0.0, 0.0)):  # Of size 0 they fall nowhere.
        focused = focused_credit(scored.focus_B2, mask_BT, size * advantages_B)
        metrics = focus_metrics(
            scored.focus_B2, focused, size * advantages_B, rollouts.is_real_B
        )
        assert metrics["credit/focused_share"] == pytest.approx(share)
        assert metrics["credit/spared_share"] == pytest.approx(share)


def test_uniform_credit_brings_no_array():
    _, _, scored = arrays(has_focus=False)
    assert scored.focus_B2 is None and scored.credit_BT is None
