"""The numbers that define a decoder, and how a checkpoint's config.json states them."""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Family = Literal["qwen3", "qwen2", "llama"]
"""Qwen3 dense; Qwen2, 2.5 and 2.5-Coder; Llama 3.1, 3.2 and SmolLM2."""


class Llama3RopeScaling(NamedTuple):
    """How Llama 3.1 slows its rotary frequencies (see `rope.py`)."""

    factor: float
    """Divisor of the frequencies that turn slowest."""
    low_freq_factor: float
    """Turns within the original positions up to which a frequency is divided whole."""
    high_freq_factor: float
    """Turns from which on a frequency stays as it is; above `low_freq_factor`."""
    original_max_positions: int
    """Positions before the context was extended."""


class Architecture(NamedTuple):
    """Sizes and constants of a decoder. Hashable: a static argument of jit."""

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
    """H; even, not always D / N."""
    mlp_width: int
    """F"""
    rope_theta: float
    norm_eps: float
    is_tied: bool
    """Whether the output head is the embedding."""
    max_positions: int
    """Longest sequence the checkpoint claims to support."""
    family: Family = "qwen3"
    rope_scaling: Llama3RopeScaling | None = None
    """None where positions are rotated by `rope_theta` alone."""

    @property
    def has_qkv_bias(self) -> bool:
        """Whether queries, keys and values have a bias."""
        return self.family == "qwen2"

    @property
    def has_qk_norm(self) -> bool:
        """Whether queries and keys are normalised, head by head."""
        return self.family == "qwen3"


# Field of config.json -> field here. All must be present: the defaults of a
# configuration class are no part of a checkpoint.
_FIELDS = {
    "vocab_size": "vocab_size",
    "hidden_size": "width",
    "num_hidden_layers": "num_layers",
    "num_attention_heads": "num_heads",
    "num_key_value_heads": "num_kv_heads",
    "intermediate_size": "mlp_width",
    "rms_norm_eps": "norm_eps",
    "tie_word_embeddings": "is_tied",
    "max_position_embeddings": "max_positions",
}

_CLASS_NAMES: dict[Family, str] = {
    "qwen3": "Qwen3ForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "llama": "LlamaForCausalLM",
}
"""Name of the family in `model_type`, and of its class in `transformers`."""

# Fields that change nothing in the forward pass. `max_window_layers` and
# `sliding_window` have no effect unless `use_sliding_window` is set, which is refused.
_HARMLESS = frozenset(
    "_name_or_path architectures bos_token_id dtype eos_token_id initializer_range "
    "model_type pad_token_id torch_dtype transformers_version use_cache "
    "tokenizer_class _attn_implementation _attn_implementation_autoset "
    "output_hidden_states output_attentions return_dict is_llama_config "
    "transformers.js_config unsloth_fixed unsloth_version".split()
)
_HARMLESS_IN: dict[Family, frozenset[str]] = {
    "qwen3": frozenset({"max_window_layers", "sliding_window"}),
    "qwen2": frozenset({"max_window_layers", "sliding_window"}),
    "llama": frozenset(),
}

# Fields that must have the one value that is implemented; null, 0 and an empty list
# are as good as false.
_REQUIRED: dict[str, Any] = {
    "attention_dropout": False,
    "quantization_config": False,
    "pretraining_tp": 1,
}
_REQUIRED_IN: dict[Family, dict[str, Any]] = {
    "qwen3": {"attention_bias": False, "use_sliding_window": False},
    "qwen2": {"use_sliding_window": False, "use_mrope": False},
    "llama": {
        "attention_bias": False,
        "mlp_bias": False,
        "rope_interleaved": False,
        "sliding_window": False,
    },
}

_STATED_IN: dict[Family, dict[str, Any]] = {
    "qwen3": {"attention_bias": False, "use_sliding_window": False},
    "qwen2": {"use_sliding_window": False},
    "llama": {"attention_bias": False, "mlp_bias": False},
}
"""What a file that we write says of them, for other readers' sake."""

_LLAMA3_FIELDS = {
    "factor": "factor",
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "original_max_position_embeddings": "original_max_positions",
}


def architecture_from_config(config: Mapping[str, Any]) -> Architecture:
    """The architecture that a Hugging Face `config.json` describes.

    Args:
      config: The parsed file, as `transformers` 4 or 5 writes it.

    Raises:
      ValueError: For a model type of no family here, a field that is missing, or one
        that asks for what this decoder does not implement; none is silently ignored.

    Example:
      >>> config = {
      ...     "model_type": "llama", "hidden_act": "silu", "vocab_size": 64,
      ...     "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4,
      ...     "num_key_value_heads": 2, "intermediate_size": 48, "rms_norm_eps": 1e-5,
      ...     "tie_word_embeddings": True, "max_position_embeddings": 128,
      ...     "rope_theta": 1e4,
      ... }
      >>> architecture_from_config(config).head_width
      8
    """
    family = _family(config)
    _refuse_unsupported(config, family)
    missing = [name for name in _FIELDS if config.get(name) is None]
    if missing:
        raise ValueError(
            f"config.json has no {', '.join(missing)}. Add what is missing."
        )
    theta, scaling = _rope(config)
    return Architecture(
        family=family,
        head_width=_head_width(config, family),
        rope_theta=theta,
        rope_scaling=scaling,
        **{ours: config[theirs] for theirs, ours in _FIELDS.items()},
    )


def config_from_architecture(architecture: Architecture) -> dict[str, Any]:
    """The `config.json` that `transformers` reads this architecture from.

    The rotary embedding is spelt as before transformers 5, which that version reads
    too.
    """
    a = architecture
    config: dict[str, Any] = {
        "architectures": [_CLASS_NAMES[a.family]],
        "model_type": a.family,
        **{theirs: getattr(a, ours) for theirs, ours in _FIELDS.items()},
        "head_dim": a.head_width,
        "rope_theta": a.rope_theta,
        "hidden_act": "silu",
    }
    if a.rope_scaling is not None:
        stated = {
            theirs: getattr(a.rope_scaling, ours)
            for theirs, ours in _LLAMA3_FIELDS.items()
        }
        config["rope_scaling"] = {"rope_type": "llama3", **stated}
    return config | _STATED_IN[a.family]


def _family(config: Mapping[str, Any]) -> Family:
    for family in _CLASS_NAMES:
        if config.get("model_type") == family:
            return family
    raise ValueError(
        f"config.json has model_type {config.get('model_type')!r}; implemented are "
        f"{', '.join(map(repr, _CLASS_NAMES))}. Use such a checkpoint."
    )


def _head_width(config: Mapping[str, Any], family: Family) -> int:
    """H, which Llama and Qwen2 need not state where it is D / N."""
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    if heads % kv_heads:
        raise ValueError(
            f"config.json has num_attention_heads {heads}, which num_key_value_heads "
            f"{kv_heads} does not divide. Check the file."
        )
    width, stated = config["hidden_size"], config.get("head_dim")
    if stated is None and (family == "qwen3" or width % heads):
        raise ValueError(
            f"config.json has no head_dim, and hidden_size {width} / "
            f"num_attention_heads {heads} does not stand for it. Add head_dim."
        )
    head_width = width // heads if stated is None else stated
    if head_width % 2:
        raise ValueError(
            f"config.json has head_dim {head_width}, which is odd: positions rotate "
            "its two halves. Check the file."
        )
    return head_width


def _rope(config: Mapping[str, Any]) -> tuple[float, Llama3RopeScaling | None]:
    """Base and scaling of the rotary embedding.

    transformers 5 states both in `rope_parameters`, earlier versions in `rope_theta`
    and `rope_scaling`. A file that holds both spellings must say the same twice.
    """
    stated = [
        (name, config[name])
        for name in ("rope_scaling", "rope_parameters")
        if config.get(name)
    ]
    sources = [config, *(rope for _, rope in stated)]
    given = [source.get("rope_theta") for source in sources]
    thetas: set[float] = {theta for theta in given if theta is not None}
    if len(thetas) != 1:
        raise ValueError(
            f"config.json states rope_theta as {sorted(thetas)}. State one value, as "
            "rope_theta or in rope_parameters."
        )
    scalings = {_rope_scaling(name, rope) for name, rope in stated}
    if len(scalings) > 1:
        raise ValueError(
            f"config.json has rope_scaling {config['rope_scaling']!r} and another "
            f"rope_parameters {config['rope_parameters']!r}. Remove one of them."
        )
    return float(thetas.pop()), scalings.pop() if scalings else None


def _rope_scaling(name: str, rope: Mapping[str, Any]) -> Llama3RopeScaling | None:
    """The scaling that one of the two spellings states."""
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in ("default", "llama3"):
        raise ValueError(
            f"config.json has {name} of rope_type {kind!r}; implemented are 'default' "
            "and 'llama3'. Use a checkpoint without it."
        )
    implemented = {"rope_type", "type", "rope_theta"}
    implemented |= _LLAMA3_FIELDS.keys() if kind == "llama3" else set()
    unknown = sorted(set(rope) - implemented)
    if unknown and not (unknown == ["partial_rotary_factor"] and rope[unknown[0]] == 1):
        raise ValueError(
            f"config.json has {name} with {unknown}, which rope_type {kind!r} does not "
            "implement. Use a checkpoint without it."
        )
    if kind == "default":
        return None
    missing = [field for field in _LLAMA3_FIELDS if rope.get(field) is None]
    if missing:
        raise ValueError(
            f"config.json has {name} of rope_type 'llama3' without "
            f"{', '.join(missing)}. Add what is missing."
        )
    scaling = Llama3RopeScaling(
        **{ours: rope[theirs] for theirs, ours in _LLAMA3_FIELDS.items()}
    )
    if not 0 < scaling.low_freq_factor < scaling.high_freq_factor:
        raise ValueError(
            f"config.json has {name} with low_freq_factor {scaling.low_freq_factor} "
            f"and high_freq_factor {scaling.high_freq_factor}; the first must be the "
            "lower, above 0. Check the file."
        )
    return scaling


def _refuse_unsupported(config: Mapping[str, Any], family: Family) -> None:
    if config.get("hidden_act") != "silu":
        raise ValueError(
            f"config.json has hidden_act {config.get('hidden_act')!r}; only 'silu' is "
            "implemented. Use such a checkpoint."
        )
    required = _REQUIRED | _REQUIRED_IN[family]
    for name, implemented in required.items():
        value = config.get(name)
        if value and value != implemented:
            raise ValueError(
                f"config.json has {name} {value!r}, which is not implemented for "
                f"model_type {family!r}. Use a checkpoint without it."
            )
    kinds = sorted(set(config.get("layer_types") or ()) - {"full_attention"})
    if kinds:
        raise ValueError(
            f"config.json has layer_types {kinds}; only 'full_attention' is "
            "implemented. Use a checkpoint without them."
        )
    known = {*_FIELDS, *required, *_HARMLESS, *_HARMLESS_IN[family], "hidden_act"}
    known |= {"head_dim", "layer_types", "rope_theta", "rope_scaling"}
    known |= {"rope_parameters"}
    unknown = sorted(set(config) - known)
    if unknown:
        raise ValueError(
            f"config.json has unknown fields {unknown}. Remove them if they do not "
            "change the forward pass, or use a checkpoint without them."
        )
