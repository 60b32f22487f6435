"""Attention of whole sequences, by name of implementation.

The name comes from the caller's settings, never from the devices that happen to be
present: a program may be compiled here for a platform elsewhere.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxgrpo.device.model.attention import chunked, cudnn, splash, xla
from jaxgrpo.device.model.remat import kept_of_attention, read_by_attention
from jaxgrpo.device.placement import num_devices, per_device

ATTENTIONS = ("xla", "chunked", "by_size", "splash", "cudnn")
"""Names of implementations; `by_size` is `xla`, or `chunked` where `xla` would hold
more than `LARGEST_SCORES_BYTES` of scores of one layer on a device."""

LARGEST_SCORES_BYTES = 2**30

_PLATFORM_OF = {"splash": "tpu", "cudnn": "gpu"}
_CUDNN_DTYPES = ("bfloat16", "float16")
_CUDNN_LARGEST_HEAD = 256


def self_attention(
    q_PSNH: Float[Array, "P S N H"],
    k_PSKH: Float[Array, "P S K H"],
    v_PSKH: Float[Array, "P S K H"],
    lengths_P: Int[Array, " P"],
    *,
    attention: str,
    segment_ids_PS: Int[Array, "P S"] | None = None,
) -> Float[Array, "P S N H"]:
    """Causal attention of right-padded sequences to themselves.

    Args:
      q_PSNH: Queries, rotated and normalised.
      k_PSKH: Keys, rotated and normalised; K divides N.
      v_PSKH: Values.
      lengths_P: Tokens of each row.
      attention: A name of `ATTENTIONS`.
      segment_ids_PS: Which of the sequences packed in a row a token belongs to; it
        sees no other. Padding is a segment of its own. None means one sequence a row.

    Returns:
      Weighted values per query head; finite and meaningless on padding.

    Raises:
      ValueError: If the implementation cannot compute this.
    """
    q_PSNH, k_PSKH, v_PSKH = read_by_attention((q_PSNH, k_PSKH, v_PSKH))
    attention = _resolved(attention, q_PSNH, num_keys=k_PSKH.shape[1])
    if attention == "xla":
        return kept_of_attention(
            xla.causal_attention(q_PSNH, k_PSKH, v_PSKH, segment_ids_PS)
        )
    operands = [q_PSNH, k_PSKH, v_PSKH]
    if attention == "cudnn":
        if segment_ids_PS is not None:
            raise ValueError(
                "attention 'cudnn' knows no segments, and rows are packed. Use "
                "'chunked' or 'xla'."
            )
        return per_device(cudnn.self_attention, *operands, lengths_P)
    function = {"chunked": chunked, "splash": splash}[attention].self_attention
    if segment_ids_PS is None:
        return per_device(partial(function, segment_ids_PS=None), *operands)
    return per_device(function, *operands, segment_ids_PS)


def completion_attention(
    q_BTNH: Float[Array, "B T N H"],
    prefix_k_PSKH: Float[Array, "P S K H"],
    prefix_v_PSKH: Float[Array, "P S K H"],
    suffix_k_BTKH: Float[Array, "B T K H"],
    suffix_v_BTKH: Float[Array, "B T K H"],
    prefix_lengths_P: Int[Array, " P"],
    prompt_index_B: Int[Array, " B"] | None,
    *,
    attention: str,
) -> Float[Array, "B T N H"]:
    """Attention of completions to their prompt, and causally to themselves.

    One softmax over both, exactly as if prompt and completion stood in one row.

    Args:
      q_BTNH: Queries of the completions.
      prefix_k_PSKH: Prompt keys, one row per prompt.
      prefix_v_PSKH: Prompt values.
      suffix_k_BTKH: Completion keys.
      suffix_v_BTKH: Completion values.
      prefix_lengths_P: Tokens of each prompt.
      prompt_index_B: The prompt of each row; None means that rows are prompt-major
        with B / P rows each, which needs no gather.
      attention: A name of `ATTENTIONS`.

    Returns:
      Weighted values per query head.

    Raises:
      ValueError: If the implementation cannot compute this.
    """
    T, S = q_BTNH.shape[1], prefix_k_PSKH.shape[1]
    q_BTNH, suffix_k_BTKH, suffix_v_BTKH = read_by_attention(
        (q_BTNH, suffix_k_BTKH, suffix_v_BTKH)
    )
    attention = _resolved(attention, q_BTNH, num_keys=S + T)
    if attention == "xla":
        is_prefix_PS = jnp.arange(S)[None, :] < prefix_lengths_P[:, None]
        is_visible_TT = jnp.tril(jnp.ones((T, T), bool))
        return kept_of_attention(
            xla.prefixed_attention(
                q_BTNH, prefix_k_PSKH, prefix_v_PSKH, suffix_k_BTKH, suffix_v_BTKH,
                is_prefix_PS, is_visible_TT, prompt_index_B,
            )
        )  # fmt: skip
    prefix = (prefix_k_PSKH, prefix_v_PSKH, prefix_lengths_P)
    if prompt_index_B is not None:
        # A prompt may lie on another device than its row; afterwards each row has one.
        prefix = jax.tree.map(lambda x: x[prompt_index_B], prefix)
    modules = {"chunked": chunked, "splash": splash, "cudnn": cudnn}
    return per_device(
        modules[attention].completion_attention,
        q_BTNH, prefix[0], prefix[1], suffix_k_BTKH, suffix_v_BTKH, prefix[2],
    )  # fmt: skip


def automatic_attention(*, dtype: str, head_width: int, platform: str) -> str:
    """The implementation that suits a platform.

    Splash attention on TPU; cuDNN on GPU where it can compute this; elsewhere plain
    XLA, in chunks where its scores would be large.

    Args:
      dtype: Arithmetic of the forward pass.
      head_width: H.
      platform: "cpu", "gpu" or "tpu": that of the devices that will run the program.

    Example:
      >>> automatic_attention(dtype="bfloat16", head_width=128, platform="gpu")
      'cudnn'
      >>> automatic_attention(dtype="float32", head_width=128, platform="gpu")
      'by_size'
    """
    for attention, home in _PLATFORM_OF.items():
        if home == platform and not _problem(attention, dtype, head_width):
            return attention
    return "by_size"


def check_attention(
    attention: str, *, dtype: str, head_width: int, platform: str
) -> None:
    """Refuses an implementation that cannot run.

    Args:
      attention: A name of `ATTENTIONS`.
      dtype: Arithmetic of the forward pass.
      head_width: H.
      platform: "cpu", "gpu" or "tpu": that of the devices that will run the program.

    Raises:
      ValueError: If the platform, the arithmetic or the head's width is not its own.
    """
    home = _PLATFORM_OF.get(attention, platform)
    if home != platform:
        raise ValueError(
            f"attention {attention!r} runs on {home.upper()}, not on "
            f"{platform.upper()}. Set model.attention to 'auto'."
        )
    problem = _problem(attention, dtype, head_width)
    if problem:
        raise ValueError(problem)


def _problem(attention: str, dtype: str, head_width: int) -> str:
    """Why an implementation cannot compute this, and what to change; "" if it can."""
    if attention == "cudnn" and dtype not in _CUDNN_DTYPES:
        return (
            f"attention 'cudnn' computes in {' or '.join(_CUDNN_DTYPES)}, not in "
            f"{dtype}. Set model.compute_dtype to 'bfloat16', or model.attention to "
            "'auto'."
        )
    if attention == "cudnn" and (head_width % 8 or head_width > _CUDNN_LARGEST_HEAD):
        return (
            f"attention 'cudnn' needs heads whose width is a multiple of 8 up to "
            f"{_CUDNN_LARGEST_HEAD}, not {head_width}. Set model.attention to 'auto'."
        )
    return ""


def _resolved(attention: str, q_BTNH: Array, *, num_keys: int) -> str:
    """The implementation's own name, checked against what it is given."""
    if attention not in ATTENTIONS:
        raise ValueError(
            f"attention is {attention!r}. Use one of {sorted(ATTENTIONS)}."
        )
    if attention != "by_size":
        problem = _problem(attention, str(q_BTNH.dtype), q_BTNH.shape[-1])
        if problem:
            raise ValueError(problem)
        return attention
    B, T, N, _ = q_BTNH.shape
    scores_bytes = 4 * math.prod((B, N, T, num_keys)) // num_devices(q_BTNH)
    return "chunked" if scores_bytes > LARGEST_SCORES_BYTES else "xla"
