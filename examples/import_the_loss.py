"""GRPO on somebody else's model: plain JAX, and two functions of jaxgrpo.

The model is a table of next-token logits. Shown a digit, it learns to count upwards.

    python examples/import_the_loss.py
"""

import jax
import jax.numpy as jnp

from jaxgrpo import group_advantages, grpo_loss

NUM_TOKENS, LENGTH, NUM_QUESTIONS, GROUP_SIZE, NUM_STEPS = 10, 6, 10, 16, 80
LEARNING_RATE = 20.0


def sample(table, questions_B, key):
    """Draws completions, each token from the logits of the one before."""

    def step(token_B, key):
        next_B = jax.random.categorical(key, table[token_B])
        return next_B, next_B

    _, completion_TB = jax.lax.scan(step, questions_B, jax.random.split(key, LENGTH))
    return completion_TB.T


def token_logprobs(table, questions_B, completion_BT):
    """Log-probs of the completions under the current table."""
    before_BT = jnp.column_stack([questions_B, completion_BT[:, :-1]])
    return jax.nn.log_softmax(table)[before_BT, completion_BT]


@jax.jit
def train_step(table, key):
    """Samples, scores, and takes one step of gradient descent."""
    group_ids_B = jnp.repeat(jnp.arange(NUM_QUESTIONS), GROUP_SIZE)
    questions_B = group_ids_B % NUM_TOKENS
    completion_BT = sample(table, questions_B, key)
    wanted_BT = (questions_B[:, None] + 1 + jnp.arange(LENGTH)[None, :]) % NUM_TOKENS
    rewards_B = (completion_BT == wanted_BT).mean(axis=1)
    advantages_B = group_advantages(rewards_B[:, None], group_ids_B)
    advantages_BT = jnp.broadcast_to(advantages_B[:, None], completion_BT.shape)

    def loss_fn(table):
        logprobs_BT = token_logprobs(table, questions_B, completion_BT)
        mask_BT = jnp.ones(completion_BT.shape, bool)
        return grpo_loss(logprobs_BT, advantages_BT, mask_BT, preset="grpo")[0]

    return table - LEARNING_RATE * jax.grad(loss_fn)(table), rewards_B.mean()


if __name__ == "__main__":
    table = jnp.zeros((NUM_TOKENS, NUM_TOKENS))
    for i in range(NUM_STEPS):
        table, reward = train_step(table, jax.random.fold_in(jax.random.key(0), i))
        if i % 20 == 0 or i == NUM_STEPS - 1:
            print(f"step {i:2d}  reward {reward:.3f}")
