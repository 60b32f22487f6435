"""The decoder of Qwen3, Qwen2 and Llama 3 in Flax NNX: RMSNorm, RoPE, GQA, SwiGLU.

The families differ in what an `Architecture` says: a bias of queries, keys and values
(Qwen2), a norm of each query and key head before RoPE (Qwen3), stretched positions
(Llama 3).

The layers are stacked along a leading L axis and scanned, so the program's size does
not depend on depth. Parameters travel as a plain nested dict of float32 arrays;
`bind` turns them into a module for the length of one traced function.

There is one forward. `forward_prompts`, `forward_completions` and `decode_token` (in
`decode.py`) differ only in which positions they run and where keys come from; each runs
the same layer.

Reference:
  Qwen3 technical report, 2025, https://arxiv.org/abs/2505.09388; Qwen2.5 technical
  report, 2024, https://arxiv.org/abs/2412.15115; The Llama 3 Herd of Models, 2024,
  https://arxiv.org/abs/2407.21783. Numerically equal to the classes of `transformers`
  for them (tests/device/model/test_parity.py).
"""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.attention.choice import completion_attention, self_attention
from jaxgrpo.device.model.cache import PrefixCache
from jaxgrpo.device.model.forward_settings import PLAIN_FORWARD, ForwardSettings
from jaxgrpo.device.model.layer import DecoderLayer, RMSNorm, dense, normal_draws
from jaxgrpo.device.model.lora import Adapted, adapter_arrays
from jaxgrpo.device.model.remat import rematerialised
from jaxgrpo.device.placement import are_weights_split, gathered_weights, split_rows
from jaxgrpo.device.records import Prompts

Params = dict[str, Any]
"""Nested dict of arrays; the paths are those of `Decoder`'s attributes."""

Weights = Params | Adapted
"""Of a policy: parameters, or adapters on a frozen base."""

_TILE = 128


class Decoder(nnx.Module):
    """Embedding, L stacked layers, final norm, and a head unless it is tied."""

    def __init__(self, architecture: Architecture, *, rngs: nnx.Rngs):
        a = architecture
        embedding_VD = 0.02 * normal_draws(rngs, (a.vocab_size, a.width))
        self.embedding_VD = nnx.Param(embedding_VD)
        self.layers = _stacked_layers(a, rngs)
        self.final_norm = RMSNorm(a.width, a.norm_eps)
        if not a.is_tied:
            self.head_VD = dense(rngs, (a.vocab_size, a.width), a.width)

    @property
    def output_head_VD(self) -> Float[Array, "V D"]:  # noqa: N802
        """The output head; the embedding itself where the two are tied."""
        if hasattr(self, "head_VD"):
            return gathered_weights({"head_VD": self.head_VD[...]})["head_VD"]
        return self.embedding_table_VD

    @property
    def embedding_table_VD(self) -> Float[Array, "V D"]:  # noqa: N802
        """The embedding, one row a token."""
        weights = {"embedding_VD": self.embedding_VD[...]}
        return gathered_weights(weights)["embedding_VD"]


def initial_params(architecture: Architecture, key: Array) -> Params:
    """Random float32 parameters: normal, scaled by 1 / sqrt(fan-in).

    Outputs of attention and MLP are scaled by a further 1 / sqrt(2 L), so that the
    residual stream keeps its size with depth (Radford et al., GPT-2, 2019).
    """
    model = Decoder(architecture, rngs=nnx.Rngs(params=key))
    return nnx.to_pure_dict(nnx.state(model, nnx.Param))


def bind(
    architecture: Architecture,
    params: Weights,
    dtype: jnp.dtype,
    *,
    is_gathered: bool = False,
) -> Decoder:
    """The module with these parameters, cast to the dtype of the computation.

    Args:
      architecture: Sizes of the model.
      params: As from `initial_params`, or a base with adapters.
      dtype: Of the computation.
      is_gathered: Make all weights whole along the mesh's `fsdp` axis at once, for a
        program that uses them many times; otherwise a layer at a time.
    """
    graphdef, state = _skeleton(architecture)
    adapters: dict[str, Array] = {}
    if isinstance(params, Adapted):
        adapters, params = adapter_arrays(params), params.base.params
    cast, adapters = jax.tree.map(lambda x: x.astype(dtype), (params, adapters))
    if is_gathered:
        cast, adapters = gathered_weights((cast, adapters))
    nnx.replace_by_pure_dict(state, cast)
    model = nnx.merge(graphdef, state)
    for name, value in adapters.items():
        setattr(model.layers, name, nnx.Param(value))
    return model


def forward_prompts(
    model: Decoder,
    prompts: Prompts,
    settings: ForwardSettings = PLAIN_FORWARD,
    *,
    segment_ids_PS: Int[Array, "P S"] | None = None,
) -> tuple[Float[Array, "P S D"], PrefixCache]:
    """Hidden states of right-padded sequences, and their keys and values.

    Args:
      model: From `bind`.
      prompts: Token ids and lengths.
      settings: What fixes the program.
      segment_ids_PS: Which of several sequences packed in a row a token belongs to;
        each run of equal ids starts at position 0 and sees nothing before it. Padding
        is a segment of its own. None means one sequence a row.

    Returns:
      Final-normed hidden states (meaningless on padding), and the cache.
    """
    P, S = prompts.token_ids_PS.shape
    positions_PS = jnp.broadcast_to(jnp.arange(S), (P, S))
    if segment_ids_PS is not None:
        positions_PS = _positions_in_segments(segment_ids_PS)

    def run_layer(layer: DecoderLayer, x_PSD: Array, _: Any):
        q_PSNH, k_PSKH, v_PSKH = layer.qkv(x_PSD, positions_PS)
        attended_PSNH = self_attention(
            q_PSNH, k_PSKH, v_PSKH, prompts.lengths_P,
            attention=settings.attention, segment_ids_PS=segment_ids_PS,
        )  # fmt: skip
        return layer.finish(x_PSD, attended_PSNH), (k_PSKH, v_PSKH)

    x_PSD = split_rows(model.embedding_table_VD[prompts.token_ids_PS])
    x_PSD, (k_LPSKH, v_LPSKH) = scan_layers(model, run_layer, x_PSD, None, settings)
    cache = PrefixCache(k_LPSKH, v_LPSKH, prompts.lengths_P)
    return model.final_norm(x_PSD), cache


def forward_completions(
    model: Decoder,
    prompts: Prompts,
    completion_BT: Int[Array, "B T"],
    prompt_index_B: Int[Array, " B"],
    settings: ForwardSettings = PLAIN_FORWARD,
    *,
    is_prompt_major: bool = False,
    embedding_shift_BTD: Float[Array, "B T D"] | None = None,
) -> Float[Array, "B T D"]:
    """Hidden states that predict each completion token, prompts run once each.

    Position t of the result is the state after the prompt and tokens 0 .. t-1; its
    distribution is that of `completion_BT[:, t]`. Nothing follows from the last token,
    which is fed only where that keeps rows whole (`_num_fed`).

    Args:
      model: From `bind`.
      prompts: Distinct prompts; rows share them.
      completion_BT: Token ids; any valid id after a completion's end.
      prompt_index_B: The prompt of each row.
      settings: What fixes the program.
      is_prompt_major: Promise that row b continues prompt b // (B / P): the same
        numbers without a gather.
      embedding_shift_BTD: Added to the embeddings of the completions' tokens; None
        for nothing.

    Returns:
      Final-normed hidden states, aligned with the tokens they predict.
    """
    S, T = prompts.token_ids_PS.shape[1], completion_BT.shape[1]
    P = prompts.token_ids_PS.shape[0]
    start_B = prompts.lengths_P[prompt_index_B]
    U = _num_fed(T)
    fed_BU = completion_BT[:, :U]
    positions_PS = jnp.broadcast_to(jnp.arange(S), (P, S))
    positions_BU = start_B[:, None] + jnp.arange(U)[None, :]
    gather_B = None if is_prompt_major else prompt_index_B

    def run_layer(layer: DecoderLayer, carry: tuple[Array, Array], _: Any):
        x_PSD, y_BUD = carry
        q_PSNH, k_PSKH, v_PSKH = layer.qkv(x_PSD, positions_PS)
        attended_PSNH = self_attention(
            q_PSNH, k_PSKH, v_PSKH, prompts.lengths_P, attention=settings.attention
        )
        x_PSD = layer.finish(x_PSD, attended_PSNH)
        if U:
            q_BUNH, k_BUKH, v_BUKH = layer.qkv(y_BUD, positions_BU)
            attended_BUNH = completion_attention(
                q_BUNH, k_PSKH, v_PSKH, k_BUKH, v_BUKH, prompts.lengths_P, gather_B,
                attention=settings.attention,
            )  # fmt: skip
            y_BUD = layer.finish(y_BUD, attended_BUNH)
        return (x_PSD, y_BUD), None

    embedding_VD = model.embedding_table_VD
    # The order of the two decides how gradients of the embedding are rounded.
    prompt_PSD, fed_BUD = embedding_VD[prompts.token_ids_PS], embedding_VD[fed_BU]
    if embedding_shift_BTD is not None:
        fed_BUD += embedding_shift_BTD[:, :U].astype(fed_BUD.dtype)
    carry = split_rows((prompt_PSD, fed_BUD))
    (x_PSD, y_BUD), _ = scan_layers(model, run_layer, carry, None, settings)
    last_PD = last_states(x_PSD, prompts.lengths_P)
    hidden_BTD = jnp.concatenate(
        [last_PD[prompt_index_B][:, None], y_BUD[:, : T - 1]], axis=1
    )
    return model.final_norm(hidden_BTD)


def _num_fed(num_columns: int) -> int:
    """Completion tokens to run: all but the last, unless that would break a tile.

    Accelerators keep and multiply rows in tiles of up to 128, and kernels take whole
    blocks: with 4,095 tokens every operand of every layer would be padded and cut.
    """
    return num_columns if num_columns % _TILE == 0 else num_columns - 1


def _positions_in_segments(segment_ids_PS: Int[Array, "P S"]) -> Int[Array, "P S"]:
    """Tokens since the last change of segment."""
    P, S = segment_ids_PS.shape
    columns_PS = jnp.broadcast_to(jnp.arange(S), (P, S))
    is_first_PS = jnp.concatenate(
        [jnp.ones((P, 1), bool), segment_ids_PS[:, 1:] != segment_ids_PS[:, :-1]],
        axis=1,
    )
    starts_PS = jax.lax.cummax(jnp.where(is_first_PS, columns_PS, 0), axis=1)
    return columns_PS - starts_PS


def last_states(
    hidden_PSD: Float[Array, "P S D"], lengths_P: Int[Array, " P"]
) -> Float[Array, "P D"]:
    """The state of each sequence's last token."""
    # By axis, not by index pairs: every device then finds its own rows at home.
    last_P11 = (lengths_P - 1)[:, None, None]
    return jnp.take_along_axis(hidden_PSD, last_P11, axis=1)[:, 0]


def _stacked_layers(architecture: Architecture, rngs: nnx.Rngs) -> DecoderLayer:
    @nnx.split_rngs(splits=architecture.num_layers)
    @nnx.vmap(in_axes=(0,), out_axes=0)
    def create(rngs: nnx.Rngs) -> DecoderLayer:
        return DecoderLayer(architecture, rngs=rngs)

    return create(rngs)


@lru_cache(maxsize=32)
def _abstract(architecture: Architecture) -> tuple[Any, Any]:
    model = nnx.eval_shape(
        lambda: Decoder(architecture, rngs=nnx.Rngs(params=jax.random.key(0)))
    )
    return nnx.split(model)


def _skeleton(architecture: Architecture) -> tuple[Any, Any]:
    graphdef, state = _abstract(architecture)
    return graphdef, jax.tree.map(lambda x: x, state)  # a fresh tree to fill


def scan_layers(
    model: Decoder, run_layer: Any, carry: Any, xs: Any, settings: ForwardSettings
) -> tuple[Any, Any]:
    """`run_layer(layer, carry, x)` of every layer in turn, as `jax.lax.scan` has it.

    Args:
      model: From `bind`.
      run_layer: Returns the new carry and what is stacked along L.
      carry: What the first layer gets.
      xs: What each layer gets, stacked along L; None for nothing.
      settings: Unrolling, and what is recomputed in the backward pass.
    """
    graphdef, state = nnx.split(model.layers)

    def body(carry: Any, scanned: Any):
        layer_state, layer_xs = scanned
        layer = nnx.merge(graphdef, gathered_weights(layer_state))
        return run_layer(layer, carry, layer_xs)

    is_unrolled = settings.unroll_layers
    if settings.remat != "none" or are_weights_split(state):
        body = rematerialised(body, settings.remat, is_unrolled=is_unrolled)
    return jax.lax.scan(body, carry, (state, xs), unroll=True if is_unrolled else 1)
