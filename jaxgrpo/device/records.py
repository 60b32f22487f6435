"""What crosses between the rooms of the device: NamedTuples of arrays.

Dimension key of the whole package; every array's name ends in its dims:

    P  distinct prompts (a problem, or a problem with a hint)
    Q  problems per step             G  samples per problem
    B  rows (completions)            R  rewards
    T  completion positions          S  prompt or cache positions
    D  model width                   F  MLP width
    N  query heads                   K  key/value heads       H  head width
    V  vocabulary                    L  layers
    C  slots of the sampler, a prompt each
    Z  rank of low-rank adapters
    1  a kept singleton; a digit     an axis of that fixed size

Groups may be ragged: B is not Q * G, and rows are grouped by `group_id_B` with
segment operations. Masks come from lengths, never from token values.
"""

from typing import Any, NamedTuple

from jaxtyping import Array, Bool, Float, Int, Key

FINISH_EOS = 0
FINISH_STOP = 1
FINISH_LENGTH = 2
FINISH_REASONS = ("eos", "stop", "length")
"""Names of the codes in `Rollouts.finish_reason_B`."""


class Prompts(NamedTuple):
    """Distinct prompts, right-padded. Each is prefilled once and shared by its rows."""

    token_ids_PS: Int[Array, "P S"]
    lengths_P: Int[Array, " P"]
    """At least 1."""


class Rollouts(NamedTuple):
    """Sampled completions with everything the update needs to know of them."""

    completion_BT: Int[Array, "B T"]
    """Token ids, the end-of-sequence token included; what follows is undefined."""
    lengths_B: Int[Array, " B"]
    """Tokens of the completion, the end-of-sequence token included."""
    budget_B: Int[Array, " B"]
    """Most tokens that the row might have had, from `lengths_B` to T. What a constraint
    allows depends on it; undefined for rows without one."""
    sampler_logprobs_BT: Float[Array, "B T"]
    """Nats, at the sampling temperature, under the policy that sampled."""
    finish_reason_B: Int[Array, " B"]
    """FINISH_EOS, FINISH_STOP or FINISH_LENGTH."""
    prompt_index_B: Int[Array, " B"]
    """Row of `Prompts` that the completion continues."""
    group_id_B: Int[Array, " B"]
    """Rows with equal ids share a baseline. In [0, B)."""
    row_key_B: Key[Array, " B"]
    """The row's key: a function of (seed, purpose, step, problem, draw, sample)."""
    policy_step_B: Int[Array, " B"]
    """Updates that the sampling policy had seen."""
    constraint_id_B: Int[Array, " B"]
    """Index of the token constraint the row was sampled under; 0 is none."""
    is_real_B: Bool[Array, " B"]
    """False for rows that only pad B up to its bucket."""
    kept_BTk: Int[Array, "B T k"] | None = None
    """Ids that each token was drawn from, under truncated sampling: k of them, one
    repeated where fewer were left. None where all could be drawn."""


class Steps(NamedTuple):
    """Completions whose steps were judged one by one. A: steps of a problem at most."""

    rewards_BA: Float[Array, "B A"]
    """1 for a right step, else 0; NaN for steps that a row's problem does not have, and
    for those whose credit is left out."""
    ends_BA: Int[Array, "B A"]
    """One past the last token of each step, not decreasing; a step that is missing or
    left out repeats the end before it."""


class Scored(NamedTuple):
    """What scoring adds to rollouts."""

    rewards_BR: Float[Array, "B R"]
    """One column per reward, in config order; NaN abstains."""
    credit_BT: Float[Array, "B T"] | None
    """Share of the row's advantage that each token carries; None is uniform."""
    focus_B2: Int[Array, "B 2"] | None = None
    """Tokens that a row's blame falls on, the first and the one after the last; equal
    where it falls on all. None where there is no such credit."""
    steps: Steps | None = None
    """Where each step has an advantage of its own."""
    qualities_B: Float[Array, " B"] | None = None
    """Grade of each passing row, in (0, 1]; NaN for a passing row that has none, -inf
    for rows that do not pass. None where nothing is graded."""
    added_advantages_B: Float[Array, " B"] | None = None
    """Added to the advantages of rows whose group has none; None where nothing is."""


class TrainState(NamedTuple):
    """What an update changes, and what it is measured against."""

    step: Int[Array, ""]
    """Updates made so far."""
    params: Any
    """Tree of float32 master weights: all that is trained."""
    opt_state: Any
    """The optimiser's own tree."""
    ref_params: Any
    """Frozen reference policy; None where no divergence is asked for, and with
    adapters, whose base it is."""
    base_params: Any = None
    """Frozen weights under adapters (`lora.FrozenBase`); None where all are trained."""
