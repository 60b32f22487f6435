"""One token of every row through the decoder, with what came before in a cache."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.device.model.cache import DecodeCache, with_column
from jaxgrpo.device.model.decode_attention import Blocks, Window, decode_attention
from jaxgrpo.device.model.decoder import Decoder, scan_layers
from jaxgrpo.device.model.forward_settings import PLAIN_FORWARD, ForwardSettings
from jaxgrpo.device.model.layer import DecoderLayer
from jaxgrpo.device.placement import split_rows


def decode_token(
    model: Decoder,
    token_B: Int[Array, " B"],
    cache: DecodeCache,
    window: Window,
    blocks: Blocks,
    settings: ForwardSettings = PLAIN_FORWARD,
) -> tuple[Float[Array, "B D"], DecodeCache]:
    """Feeds one token of each row; returns the states that predict the next.

    Rows are slot-major: row b belongs to slot b // (B / C). The layers only read the
    cache; what they add is written after the last one, so that nothing is copied.

    Args:
      model: From `bind`.
      token_B: Follows the `window.num_fed_B` tokens of its row.
      cache: Prompts and rings.
      window: What the rows see.
      blocks: Positions visited at a time.
      settings: What fixes the program; only its unrolling is used here.

    Returns:
      Final-normed hidden states and the new cache.
    """
    B, C = token_B.shape[0], cache.lengths_C.shape[0]
    start_B = jnp.broadcast_to(cache.lengths_C[:, None], (C, B // C)).reshape(B)
    positions_B1 = (start_B + window.num_fed_B)[:, None]

    def run_layer(layer: DecoderLayer, y_B1D: Array, index: Array):
        q_B1NH, k_B1KH, v_B1KH = layer.qkv(y_B1D, positions_B1)
        k_BKH, v_BKH = k_B1KH[:, 0], v_B1KH[:, 0]
        attended_BNH = decode_attention(
            q_B1NH[:, 0], k_BKH, v_BKH, cache, index, window, blocks
        )
        return layer.finish(y_B1D, attended_BNH[:, None]), (k_BKH, v_BKH)

    y_B1D = split_rows(model.embedding_table_VD[token_B])[:, None]
    index_L = jnp.arange(cache.suffix_k.values.shape[0])
    y_B1D, (k_LBKH, v_LBKH) = scan_layers(model, run_layer, y_B1D, index_L, settings)
    column = window.step % cache.suffix_k.values.shape[3]
    cache = cache._replace(
        suffix_k=with_column(cache.suffix_k, k_LBKH, column),
        suffix_v=with_column(cache.suffix_v, v_LBKH, column),
    )
    return model.final_norm(y_B1D)[:, 0], cache
