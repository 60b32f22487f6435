"""The supervised step against NumPy, and what it must leave alone."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxgrpo.device.head import head_logits
from jaxgrpo.device.model.decoder import bind, forward_prompts
from jaxgrpo.device.optimizer import adamw
from jaxgrpo.device.records import Prompts, TrainState
from jaxgrpo.device.supervised import (
    Examples,
    SupervisedSettings,
    supervised_update,
)

B, S, NUM_TOKENS = 4, 10, 300
PROMPT_LENGTHS_B = np.array([3, 1, 6, 2])
LENGTHS_B = np.array([10, 4, 7, 0])  # the last row only pads
SETTINGS = SupervisedSettings(num_tokens=NUM_TOKENS, logprob_chunk=8)
OPTIMIZER = adamw(
    optax.constant_schedule(1e-2), beta1=0.9, beta2=0.99, weight_decay=0.0,
    clip_norm=1.0,
)  # fmt: skip


@pytest.fixture(scope="module")
def tokens() -> np.ndarray:
    return np.random.default_rng(2).integers(0, NUM_TOKENS, (B, S))


@pytest.fixture
def state(tiny_params: Any) -> TrainState:
    """A state of one's own: the update takes it."""
    params = jax.tree.map(jnp.copy, tiny_params)
    return TrainState(jnp.int32(0), params, OPTIMIZER.init(params), None)


@pytest.fixture
def update(tiny: Any) -> Any:
    def run(state: TrainState, tokens: Any, lengths: Any = LENGTHS_B) -> Any:
        examples = Examples(
            jnp.asarray(tokens), jnp.asarray(PROMPT_LENGTHS_B), jnp.asarray(lengths)
        )
        return supervised_update(
            state, examples, architecture=tiny, optimizer=OPTIMIZER, settings=SETTINGS
        )

    return run


def learned(lengths: np.ndarray) -> list[tuple[int, int]]:
    """(row, position) of every token to imitate."""
    pairs = zip(PROMPT_LENGTHS_B, lengths, strict=True)
    return [(b, t) for b, (start, end) in enumerate(pairs) for t in range(start, end)]


def test_loss_is_the_mean_over_completion_tokens(
    tiny: Any, tiny_params: Any, tokens: Any, state: TrainState, update: Any
) -> None:
    @jax.jit
    def logits(params):
        model = bind(tiny, params, jnp.dtype("float32"))
        prompts = Prompts(jnp.asarray(tokens), jnp.full((B,), S))
        return head_logits(forward_prompts(model, prompts)[0], model.output_head_VD)

    logits_BSV = np.asarray(logits(tiny_params), np.float64)[..., :NUM_TOKENS]
    losses = []
    for b, t in learned(LENGTHS_B):
        z_V = logits_BSV[b, t - 1]
        losses.append(np.log(np.exp(z_V).sum()) - z_V[tokens[b, t]])
    _, metrics = update(state, tokens)
    assert float(metrics["loss"]) == pytest.approx(np.mean(losses), rel=1e-6)
    assert float(metrics["num_tokens"]) == len(losses)


def test_tokens_that_are_not_learned_or_read_change_no_bit(
    tokens: Any, state: TrainState, update: Any
) -> None:
    is_token_BS = np.arange(S)[None, :] < LENGTHS_B[:, None]
    copy = jax.tree.map(jnp.copy, state)
    expected = update(copy, tokens)
    changed = update(state, np.where(is_token_BS, tokens, NUM_TOKENS + 5))
    jax.tree.map(np.testing.assert_array_equal, changed, expected)


def test_a_target_beyond_the_tokenizer_leaves_the_state_as_it_was(
    tiny_params: Any, tokens: Any, state: TrainState, update: Any
) -> None:
    tokens = tokens.copy()
    tokens[0, 5] = NUM_TOKENS  # probability 0, so the loss is infinite
    opt_state = jax.tree.map(np.asarray, state.opt_state)
    after, metrics = update(state, tokens)
    assert not np.isfinite(metrics["loss"])
    assert float(metrics["update_skipped"]) == 1.0
    assert int(after.step) == 1
    jax.tree.map(np.testing.assert_array_equal, after.params, tiny_params)
    jax.tree.map(np.testing.assert_array_equal, after.opt_state, opt_state)


def test_a_batch_without_completion_tokens_has_loss_zero_and_moves_nothing(
    tiny_params: Any, tokens: Any, state: TrainState, update: Any
) -> None:
    after, metrics = update(state, tokens, lengths=np.zeros(B, int))
    assert float(metrics["loss"]) == 0.0
    assert float(metrics["grad_norm"]) == 0.0
    assert float(metrics["num_tokens"]) == 0.0
    jax.tree.map(np.testing.assert_array_equal, after.params, tiny_params)


def test_loss_falls_and_nothing_is_compiled_twice(
    tokens: Any, state: TrainState, update: Any
) -> None:
    program: Any = supervised_update
    state, metrics = update(state, tokens)
    losses, num_programs = [float(metrics["loss"])], program._cache_size()
    for _ in range(39):
        state, metrics = update(state, tokens)
        losses.append(float(metrics["loss"]))
        assert float(metrics["update_skipped"]) == 0.0
    assert losses[0] > 4.0 and losses[-1] < 0.1 * losses[0]
    assert int(state.step) == 40
    assert program._cache_size() == num_programs
