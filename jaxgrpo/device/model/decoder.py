"""Qwen3 in Flax NNX: RMSNorm, per-head q/k norm before RoPE, GQA, SwiGLU.

The layers are stacked along a leading L axis and scanned, so the program's size does
not depend on depth. Parameters travel as a plain nested dict of float32 arrays;
`bind` turns them into a module for the length of one traced function.

There is one forward. `forward_prompts`, `forward_completions` and `decode_token` differ
only in which positions they run and where keys come from; each runs the same layer.

Reference:
  Qwen3 technical report, 2025, https://arxiv.org/abs/2505.09388; numerically equal to
  `transformers`' Qwen3ForCausalLM (tests/device/model/test_parity.py).
"""

from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jaxtyping import Array, Float, Int

from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.attention import causal_attention, prefixed_attention
from jaxgrpo.device.model.cache import PrefixCache, SuffixCache
from jaxgrpo.device.model.layer import DecoderLayer, RMSNorm, dense
from jaxgrpo.device.placement import gathered_weights, split_rows
from jaxgrpo.device.records import Prompts

Params = dict[str, Any]
"""Nested dict of arrays; the paths are those of `Decoder`'s attributes."""


class Decoder(nnx.Module):
    """Embedding, L stacked layers, final norm, and a head unless it is tied."""

    def __init__(self, architecture: Architecture, *, rngs: nnx.Rngs):
        a = architecture
        embedding_VD = 0.02 * jax.random.normal(rngs.params(), (a.vocab_size, a.width))
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
    params: Params,
    dtype: jnp.dtype,
    *,
    is_gathered: bool = False,
) -> Decoder:
    """The module with these parameters, cast to the dtype of the computation.

    Args:
      architecture: Sizes of the model.
      params: As from `initial_params`.
      dtype: Of the computation.
      is_gathered: Make all weights whole along the mesh's `fsdp` axis at once, for a
        program that uses them many times; otherwise a layer at a time. To hold one
        layer at a time in training too, recompute layers (`remat`).
    """
    graphdef, state = _skeleton(architecture)
    cast = jax.tree.map(lambda x: x.astype(dtype), params)
    if is_gathered:
        cast = gathered_weights(cast)
    nnx.replace_by_pure_dict(state, cast)
    return nnx.merge(graphdef, state)


def forward_prompts(
    model: Decoder, prompts: Prompts, *, unroll: bool = False, remat: bool = False
) -> tuple[Float[Array, "P S D"], PrefixCache]:
    """Hidden states of right-padded sequences, and their keys and values.

    Args:
      model: From `bind`.
      prompts: Token ids and lengths.
      unroll: Unroll the scan over layers.
      remat: Recompute each layer in the backward pass.

    Returns:
      Final-normed hidden states (meaningless on padding), and the cache.
    """
    P, S = prompts.token_ids_PS.shape
    positions_PS = jnp.broadcast_to(jnp.arange(S), (P, S))

    def run_layer(layer: DecoderLayer, x_PSD: Array, _: Any):
        q_PSNH, k_PSKH, v_PSKH = layer.qkv(x_PSD, positions_PS)
        x_PSD = layer.finish(x_PSD, causal_attention(q_PSNH, k_PSKH, v_PSKH))
        return x_PSD, (k_PSKH, v_PSKH)

    x_PSD = split_rows(model.embedding_table_VD[prompts.token_ids_PS])
    x_PSD, (k_LPSKH, v_LPSKH) = _scan_layers(
        model, run_layer, x_PSD, None, unroll=unroll, remat=remat
    )
    cache = PrefixCache(k_LPSKH, v_LPSKH, prompts.lengths_P)
    return model.final_norm(x_PSD), cache


def forward_completions(
    model: Decoder,
    prompts: Prompts,
    completion_BT: Int[Array, "B T"],
    prompt_index_B: Int[Array, " B"],
    *,
    is_prompt_major: bool = False,
    unroll: bool = False,
    remat: bool = False,
) -> Float[Array, "B T D"]:
    """Hidden states that predict each completion token, prompts run once each.

    Position t of the result is the state after the prompt and tokens 0 .. t-1; its
    distribution is that of `completion_BT[:, t]`. The last token is never fed.

    Args:
      model: From `bind`.
      prompts: Distinct prompts; rows share them.
      completion_BT: Token ids; any valid id after a completion's end.
      prompt_index_B: The prompt of each row.
      is_prompt_major: Promise that row b continues prompt b // (B / P): the same
        numbers without a gather.
      unroll: Unroll the scan over layers.
      remat: Recompute each layer in the backward pass.

    Returns:
      Final-normed hidden states, aligned with the tokens they predict.
    """
    S, T = prompts.token_ids_PS.shape[1], completion_BT.shape[1]
    P = prompts.token_ids_PS.shape[0]
    start_B = prompts.lengths_P[prompt_index_B]
    fed_BU = completion_BT[:, :-1]
    U = T - 1
    positions_PS = jnp.broadcast_to(jnp.arange(S), (P, S))
    positions_BU = start_B[:, None] + jnp.arange(U)[None, :]
    is_prefix_PS = positions_PS < prompts.lengths_P[:, None]
    is_visible_UU = jnp.tril(jnp.ones((U, U), bool))
    gather_B = None if is_prompt_major else prompt_index_B

    def run_layer(layer: DecoderLayer, carry: tuple[Array, Array], _: Any):
        x_PSD, y_BUD = carry
        q_PSNH, k_PSKH, v_PSKH = layer.qkv(x_PSD, positions_PS)
        x_PSD = layer.finish(x_PSD, causal_attention(q_PSNH, k_PSKH, v_PSKH))
        if U:
            q_BUNH, k_BUKH, v_BUKH = layer.qkv(y_BUD, positions_BU)
            attended_BUNH = prefixed_attention(
                q_BUNH, k_PSKH, v_PSKH, k_BUKH, v_BUKH,
                is_prefix_PS, is_visible_UU, gather_B,
            )  # fmt: skip
            y_BUD = layer.finish(y_BUD, attended_BUNH)
        return (x_PSD, y_BUD), None

    embedding_VD = model.embedding_table_VD
    carry = split_rows((embedding_VD[prompts.token_ids_PS], embedding_VD[fed_BU]))
    (x_PSD, y_BUD), _ = _scan_layers(
        model, run_layer, carry, None, unroll=unroll, remat=remat
    )
    last_PD = last_states(x_PSD, prompts.lengths_P)
    hidden_BTD = jnp.concatenate([last_PD[prompt_index_B][:, None], y_BUD], axis=1)
    return model.final_norm(hidden_BTD)


def last_states(
    hidden_PSD: Float[Array, "P S D"], lengths_P: Int[Array, " P"]
) -> Float[Array, "P D"]:
    """The state of each sequence's last token."""
    # By axis, not by index pairs: every device then finds its own rows at home.
    last_P11 = (lengths_P - 1)[:, None, None]
    return jnp.take_along_axis(hidden_PSD, last_P11, axis=1)[:, 0]


def decode_token(
    model: Decoder,
    token_B: Int[Array, " B"],
    column: Int[Array, ""],
    prefix: PrefixCache,
    suffix: SuffixCache,
    *,
    unroll: bool = False,
) -> tuple[Float[Array, "B D"], SuffixCache]:
    """Feeds each row's token of one column; returns the states that predict the next.

    Rows are prompt-major: row b continues prompt b // (B / P). The suffix cache rides
    in the scan's carry: as a scanned output it would be copied whole at every token.

    Args:
      model: From `bind`.
      token_B: The token that stands in `column`.
      column: Number of completion tokens already in the cache.
      prefix: Keys and values of the prompts.
      suffix: Keys and values of the completions; written at `column`.
      unroll: Unroll the scan over layers.

    Returns:
      Final-normed hidden states and the new suffix cache.
    """
    B, T = suffix.k_LBTKH.shape[1:3]
    P, S = prefix.k_LPSKH.shape[1:3]
    start_B = jnp.repeat(prefix.lengths_P, B // P, total_repeat_length=B)
    positions_B1 = (start_B + column)[:, None]
    is_prefix_PS = jnp.arange(S)[None, :] < prefix.lengths_P[:, None]
    is_visible_1T = (jnp.arange(T) <= column)[None, :]

    def run_layer(layer: DecoderLayer, carry: tuple[Array, ...], xs: tuple[Array, ...]):
        y_B1D, cache_k_LBTKH, cache_v_LBTKH = carry
        index, prefix_k_PSKH, prefix_v_PSKH = xs
        q_B1NH, k_B1KH, v_B1KH = layer.qkv(y_B1D, positions_B1)
        where = (index, 0, column, 0, 0)
        cache_k_LBTKH = jax.lax.dynamic_update_slice(
            cache_k_LBTKH, k_B1KH[None].astype(cache_k_LBTKH.dtype), where
        )
        cache_v_LBTKH = jax.lax.dynamic_update_slice(
            cache_v_LBTKH, v_B1KH[None].astype(cache_v_LBTKH.dtype), where
        )
        k_BTKH = jax.lax.dynamic_index_in_dim(cache_k_LBTKH, index, keepdims=False)
        v_BTKH = jax.lax.dynamic_index_in_dim(cache_v_LBTKH, index, keepdims=False)
        attended_B1NH = prefixed_attention(
            q_B1NH, prefix_k_PSKH, prefix_v_PSKH, k_BTKH, v_BTKH,
            is_prefix_PS, is_visible_1T, None,
        )  # fmt: skip
        y_B1D = layer.finish(y_B1D, attended_B1NH)
        return (y_B1D, cache_k_LBTKH, cache_v_LBTKH), None

    index_L = jnp.arange(prefix.k_LPSKH.shape[0])
    carry = (split_rows(model.embedding_table_VD[token_B])[:, None], *suffix)
    (y_B1D, k_LBTKH, v_LBTKH), _ = _scan_layers(
        model, run_layer, carry, (index_L, prefix.k_LPSKH, prefix.v_LPSKH),
        unroll=unroll, remat=False,
    )  # fmt: skip
    return model.final_norm(y_B1D)[:, 0], SuffixCache(k_LBTKH, v_LBTKH)


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


def _scan_layers(
    model: Decoder, run_layer: Any, carry: Any, xs: Any, *, unroll: bool, remat: bool
) -> tuple[Any, Any]:
    graphdef, state = nnx.split(model.layers)

    def body(carry: Any, scanned: Any):
        layer_state, layer_xs = scanned
        layer = nnx.merge(graphdef, gathered_weights(layer_state))
        return run_layer(layer, carry, layer_xs)

    if remat:
        body = jax.checkpoint(body, prevent_cse=False)
    return jax.lax.scan(body, carry, (state, xs), unroll=True if unroll else 1)
