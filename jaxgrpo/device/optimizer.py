"""How gradients become updates: optax optimisers chosen by name, one schedule.

Weight decay and orthogonalisation go by parameter name, not by rank: with stacked
layers a norm's scale is a matrix too.
"""

from typing import Any, Literal, cast

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float
from optax.contrib import MuonDimensionNumbers

from jaxgrpo.device.model.decoder import Params
from jaxgrpo.device.model.lora import ADAPTERS
from jaxgrpo.device.placement import kept_in_place
from jaxgrpo.device.records import TrainState

# Stacked matrices of a layer: axis 0 is L; the input and output dims follow.
_MATRIX_DIMS = {
    "q_DNH": MuonDimensionNumbers((1,), (2, 3)),
    "k_DKH": MuonDimensionNumbers((1,), (2, 3)),
    "v_DKH": MuonDimensionNumbers((1,), (2, 3)),
    "o_NHD": MuonDimensionNumbers((1, 2), (3,)),
    "gate_DF": MuonDimensionNumbers((1,), (2,)),
    "up_DF": MuonDimensionNumbers((1,), (2,)),
    "down_FD": MuonDimensionNumbers((1,), (2,)),
}
for _names in ADAPTERS.values():
    # Of a, the last dim is the output; of b, the first is the input.
    _num_inputs = len(_names.a.rpartition("_")[2]) - 1
    _num_outputs = len(_names.b.rpartition("_")[2]) - 1
    _MATRIX_DIMS[_names.a] = MuonDimensionNumbers(
        tuple(range(1, 1 + _num_inputs)), (1 + _num_inputs,)
    )
    _MATRIX_DIMS[_names.b] = MuonDimensionNumbers(
        (1,), tuple(range(2, 2 + _num_outputs))
    )


def learning_rate_schedule(
    peak: float,
    *,
    shape: Literal["constant", "linear", "cosine"],
    num_updates: int,
    warmup_updates: int,
    decay_fraction: float,
    final_scale: float,
) -> optax.Schedule:
    """Linear warm-up from 0, a plateau, then a decay to `final_scale * peak`.

    The first update has learning rate peak / warmup_updates: no update is wasted at 0.

    Args:
      peak: Learning rate of the plateau.
      shape: Of the decay; `constant` has none.
      num_updates: Length of the run.
      warmup_updates: Length of the warm-up.
      decay_fraction: Share of the run, at its end, that decays.
      final_scale: Learning rate at `num_updates`, one update after the last one made,
        relative to the peak.

    Returns:
      A function of the number of updates made.
    """
    decay_updates = max(1, round(decay_fraction * num_updates))
    decay_start = max(num_updates - decay_updates, warmup_updates)
    decay_updates = max(1, num_updates - decay_start)
    if shape == "constant":
        decay = optax.constant_schedule(peak)
    elif shape == "linear":
        decay = optax.linear_schedule(peak, final_scale * peak, decay_updates)
    else:
        decay = optax.cosine_decay_schedule(peak, decay_updates, alpha=final_scale)
    plateau = optax.constant_schedule(peak)
    later = optax.join_schedules([plateau, decay], [decay_start])
    if not warmup_updates:
        return later
    warmup = optax.linear_schedule(
        peak / warmup_updates, peak, max(1, warmup_updates - 1)
    )

    def schedule(count: Any) -> Any:
        return jax.numpy.where(count < warmup_updates, warmup(count), later(count))

    return schedule


def adamw(
    learning_rate: optax.Schedule,
    *,
    beta1: float,
    beta2: float,
    weight_decay: float,
    clip_norm: float,
) -> optax.GradientTransformation:
    """AdamW after clipping by global norm; decay on matrices only."""
    return optax.chain(
        optax.clip_by_global_norm(clip_norm),
        optax.adamw(
            learning_rate, b1=beta1, b2=beta2, weight_decay=weight_decay,
            mask=is_matrix,
        ),
    )  # fmt: skip


def muon(
    learning_rate: optax.Schedule,
    muon_learning_rate: optax.Schedule,
    *,
    beta1: float,
    beta2: float,
    weight_decay: float,
    clip_norm: float,
) -> optax.GradientTransformation:
    """Muon on the layers' matrices, AdamW on embedding, head and norms.

    Reference:
      Jordan et al., Muon, 2024, https://kellerjordan.github.io/posts/muon/.
      Differs from it in that AdamW has Nesterov momentum too, as optax's has here;
      `beta1` and `beta2` are AdamW's, Muon's momentum is 0.95.
    """
    return optax.chain(
        optax.clip_by_global_norm(clip_norm),
        optax.contrib.muon(
            muon_learning_rate,
            weight_decay=weight_decay,
            adam_learning_rate=learning_rate,
            adam_b1=beta1,
            adam_b2=beta2,
            muon_weight_dimension_numbers=cast(Any, matrix_dims),
        ),
    )


def matrix_dims(params: Params) -> Any:
    """For each parameter: its matrix dims, or None where it is no layer matrix."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: _MATRIX_DIMS.get(path[-1].key), params
    )


def is_matrix(params: Params) -> Any:
    """For each parameter: whether weight decay applies to it."""
    return jax.tree_util.tree_map_with_path(
        lambda path, _: path[-1].key in _MATRIX_DIMS, params
    )


def apply_gradients(
    state: TrainState,
    loss: Float[Array, ""],
    grads: Any,
    optimizer: optax.GradientTransformation,
    *,
    has_tokens: Bool[Array, ""] | bool = True,
) -> tuple[TrainState, dict[str, Float[Array, ""]]]:
    """The state after an update, or the same state if it must not be made.

    That is so if loss or gradient is not finite, and if there was nothing to learn
    from: momentum and weight decay move weights even where the gradient is 0.

    Args:
      state: Before the update.
      loss: Its value decides together with the gradient's norm.
      grads: Tree like the parameters.
      optimizer: What turns gradients into updates.
      has_tokens: Whether any token counted.

    Returns:
      The new state (`step` counts attempts) and `grad_norm`, `update_skipped` (1 where
      something was not finite).
    """
    grad_norm = optax.tree.norm(grads)
    is_finite = jnp.isfinite(loss) & jnp.isfinite(grad_norm)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)

    is_made = is_finite & has_tokens

    def if_made(new: Array, old: Array) -> Array:
        return jnp.where(is_made, new, old)

    new_state = state._replace(
        step=state.step + 1,
        params=kept_in_place(jax.tree.map(if_made, params, state.params)),
        opt_state=kept_in_place(jax.tree.map(if_made, opt_state, state.opt_state)),
    )
    return new_state, {
        "grad_norm": grad_norm,
        "update_skipped": (~is_finite).astype(jnp.float32),
    }
