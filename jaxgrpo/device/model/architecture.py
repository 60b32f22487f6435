"""The numbers that define a decoder, and how a checkpoint's config.json states them."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Architecture(NamedTuple):
    """Sizes and constants of a Qwen3 decoder. Hashable: a static argument of jit."""

    vocab_size: int
    """V: rows of the embedding; may exceed the tokenizer's length."""
    width: int
    """D"""
    num_layers: int
    """L"""
    num_heads: int
    """N"""
    num_kv_heads: int
    """K; divides N."""
    head_width: int
    """H; not always D / N."""
    mlp_width: int
    """F"""
    rope_theta: float
    norm_eps: float
    is_tied: bool
    """Whether the output head is the embedding."""
    max_positions: int
    """Longest sequence the checkpoint claims to support."""


PRESETS = {
    # 1.66 M parameters: what 2 CPU cores train in minutes.
    "qwen3-1.6m": Architecture(
        vocab_size=448,
        width=192,
        num_layers=4,
        num_heads=6,
        num_kv_heads=2,
        head_width=32,
        mlp_width=512,
        rope_theta=10_000.0,
        norm_eps=1e-6,
        is_tied=True,
        max_positions=512,
    ),
    # For tests: every mechanism, no size.
    "qwen3-tiny": Architecture(
        vocab_size=448,
        width=32,
        num_layers=2,
        num_heads=4,
        num_kv_heads=2,
        head_width=16,
        mlp_width=64,
        rope_theta=10_000.0,
        norm_eps=1e-6,
        is_tied=True,
        max_positions=512,
    ),
}
"""Architectures that can be initialised at random, by name."""

# Field of config.json -> field here. All must be present: the defaults of a
# configuration class are no part of a checkpoint.
_FIELDS = {
    "vocab_size": "vocab_size",
    "hidden_size": "width",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "head_dim": "head_width",
    "intermediate_size": "mlp_width",
    "rms_norm_eps": "norm_eps",
    "tie_word_embeddings": "is_tied",
    "max_position_embeddings": "max_positions",
}

# Fields of a Qwen3 config.json that change nothing in the forward pass.
_IGNORED_FIELDS = frozenset(
    "_name_or_path architectures bos_token_id dtype eos_token_id initializer_range "
    "max_window_layers model_type pad_token_id torch_dtype transformers_version "
    "use_cache tokenizer_class _attn_implementation output_hidden_states "
    "output_attentions return_dict".split()
)


def architecture_from_config(config: Mapping[str, Any]) -> Architecture:
    """The architecture that a Hugging Face `config.json` describes.

    Args:
      config: The parsed file.

    Raises:
      ValueError: For another model type, or a field that is missing or that this
        decoder does not implement; never silently ignored.

    Example:
      >>> config = config_from_architecture(PRESETS["qwen3-tiny"])
      >>> architecture_from_config(config) == PRESETS["qwen3-tiny"]
      True
    """
    _refuse_unsupported(config)
    missing = [name for name in _FIELDS if config.get(name) is None]
    if missing:
        raise ValueError(
            f"config.json has no {', '.join(missing)}. Add what is missing."
        )
    architecture = Architecture(
        rope_theta=_rope_theta(config),
        **{ours: config[theirs] for theirs, ours in _FIELDS.items()},
    )
    if architecture.num_heads % architecture.num_kv_heads:
        raise ValueError(
            f"config.json has num_attention_heads {architecture.num_heads}, which "
            f"num_key_value_heads {architecture.num_kv_heads} does not divide. "
            "Check the file."
        )
    return architecture


def config_from_architecture(architecture: Architecture) -> dict[str, Any]:
    """The `config.json` that `transformers` reads this architecture from."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        **{theirs: getattr(architecture, ours) for theirs, ours in _FIELDS.items()},
        "rope_theta": architecture.rope_theta,
        "hidden_act": "silu",
        "attention_bias": False,
        "use_sliding_window": False,
    }


def _rope_theta(config: Mapping[str, Any]) -> float:
    """Base of the rotary embedding: a field of its own before transformers 5."""
    rope = config.get("rope_parameters") or {}
    stated = {rope.get("rope_theta"), config.get("rope_theta")} - {None}
    if len(stated) != 1:
        raise ValueError(
            f"config.json states rope_theta as {sorted(stated)}. State one value, as "
            "rope_theta or in rope_parameters."
        )
    return float(stated.pop())


def _refuse_unsupported(config: Mapping[str, Any]) -> None:
    required = {"model_type": "qwen3", "hidden_act": "silu"}
    for name, implemented in required.items():
        if config.get(name) != implemented:
            raise ValueError(
                f"config.json has {name} {config.get(name)!r}; only {implemented!r} "
                "is implemented. Use such a checkpoint."
            )
    is_present = {
        "attention_bias": bool(config.get("attention_bias")),
        "attention_dropout": bool(config.get("attention_dropout")),
        "use_sliding_window": bool(config.get("use_sliding_window")),
        "sliding_window": False,  # without effect unless use_sliding_window
        "layer_types": bool(set(config.get("layer_types") or ()) - {"full_attention"}),
        "rope_scaling": _is_scaled(config.get("rope_scaling")),
        "rope_parameters": _is_scaled(config.get("rope_parameters")),
        "quantization_config": bool(config.get("quantization_config")),
    }
    for name in filter(is_present.get, is_present):
        raise ValueError(
            f"config.json has {name} {config.get(name)!r}, which is not implemented. "
            "Use a checkpoint without it."
        )
    known = {*_FIELDS, *required, *is_present, *_IGNORED_FIELDS, "rope_theta"}
    unknown = sorted(set(config) - known)
    if unknown:
        raise ValueError(
            f"config.json has unknown fields {unknown}. Remove them if they do not "
            "change the forward pass, or use a checkpoint without them."
        )


def _is_scaled(rope: Mapping[str, Any] | None) -> bool:
    """Whether positions are rotated in any other way than by theta alone."""
    rope = rope or {}
    types = {rope.get("rope_type"), rope.get("type")} - {None}
    plain_fields = {"rope_type", "type", "rope_theta"}
    return bool(types - {"default"} or set(rope) - plain_fields)
