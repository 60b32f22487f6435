"""A checkpoint's config.json: read as its family means it, written back, refused."""

import math
from typing import Any

import jax
import pytest

from jaxgrpo.device.model.architecture import (
    Llama3RopeScaling,
    architecture_from_config,
    config_from_architecture,
)
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.model.presets import PRESETS

# The files as they are published, less what names files and versions.
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"], "attention_bias": False,
    "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645,
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
    "initializer_range": 0.02, "intermediate_size": 3072,
    "max_position_embeddings": 40960, "max_window_layers": 28, "model_type": "qwen3",
    "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000,
    "sliding_window": None, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "use_cache": True, "use_sliding_window": False, "vocab_size": 151936,
}  # fmt: skip
QWEN3_2507 = QWEN3 | {
    "hidden_size": 2560, "intermediate_size": 9728, "max_position_embeddings": 262144,
    "max_window_layers": 36, "num_attention_heads": 32, "num_hidden_layers": 36,
    "rope_theta": 5000000,
}  # fmt: skip
QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
    "bos_token_id": 151643, "eos_token_id": 151645, "hidden_act": "silu",
    "hidden_size": 1536, "initializer_range": 0.02, "intermediate_size": 8960,
    "max_position_embeddings": 32768, "max_window_layers": 28, "model_type": "qwen2",
    "num_attention_heads": 12, "num_hidden_layers": 28, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 131072,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True,
    "use_sliding_window": False, "vocab_size": 151936,
}  # fmt: skip
LLAMA32 = {
    "architectures": ["LlamaForCausalLM"], "attention_bias": False,
    "attention_dropout": 0.0, "bos_token_id": 128000,
    "eos_token_id": [128001, 128008, 128009], "head_dim": 64, "hidden_act": "silu",
    "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192,
    "max_position_embeddings": 131072, "mlp_bias": False, "model_type": "llama",
    "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
    "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_scaling": {
        "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192, "rope_type": "llama3",
    },
    "rope_theta": 500000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "use_cache": True, "vocab_size": 128256,
}  # fmt: skip
# Llama 3.1 states no head_dim.
LLAMA31 = {name: value for name, value in LLAMA32.items() if name != "head_dim"} | {
    "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "rope_scaling": LLAMA32["rope_scaling"] | {"factor": 8.0},
    "tie_word_embeddings": False,
}  # fmt: skip
SMOLLM2 = {
    "architectures": ["LlamaForCausalLM"], "attention_bias": False,
    "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.041666666666666664,
    "intermediate_size": 1536, "is_llama_config": True,
    "max_position_embeddings": 8192, "mlp_bias": False, "model_type": "llama",
    "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
    "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_interleaved": False, "rope_scaling": None, "rope_theta": 100000,
    "tie_word_embeddings": True, "torch_dtype": "bfloat16",
    "transformers.js_config": {"kv_cache_dtype": {"fp16": "float16"}},
    "use_cache": True, "vocab_size": 49152,
}  # fmt: skip
PUBLISHED = {
    "qwen3-0.6b": QWEN3,
    "qwen3-4b-2507": QWEN3_2507,
    "qwen2.5-coder-1.5b": QWEN2,
    "llama-3.2-1b": LLAMA32,
    "llama-3.1-8b": LLAMA31,
    "smollm2-135m": SMOLLM2,
}
OF_FAMILY = {"qwen3": QWEN3, "qwen2": QWEN2, "llama": LLAMA32}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_file_is_read(name: str) -> None:
    assert architecture_from_config(PUBLISHED[name]) == PRESETS[name]


# As the model's page on the hub counts its tensors; tied weights once.
NUM_PARAMETERS = {
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-4b-2507": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "qwen2.5-coder-0.5b": 494_032_768,
    "qwen2.5-coder-1.5b": 1_543_714_304,
    "qwen2.5-coder-7b": 7_615_616_512,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "llama-3.1-8b": 8_030_261_248,
    "smollm2-135m": 134_515_008,
}


@pytest.mark.parametrize("name", NUM_PARAMETERS)
def test_a_preset_has_the_published_number_of_parameters(name: str) -> None:
    shapes = jax.eval_shape(lambda: initial_params(PRESETS[name], jax.random.key(0)))
    counted = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
    assert counted == NUM_PARAMETERS[name]


def test_every_preset_of_a_published_model_is_counted() -> None:
    assert set(PRESETS) - set(NUM_PARAMETERS) == {
        "qwen3-tiny",
        "qwen3-1.6m",
        "qwen3-1.7m",
    }


@pytest.mark.parametrize("name", PRESETS)
def test_what_is_written_is_read_back(name: str) -> None:
    config = config_from_architecture(PRESETS[name])
    assert architecture_from_config(config) == PRESETS[name]


def test_a_written_file_says_all_that_the_published_one_says() -> None:
    for name, published in PUBLISHED.items():
        written = config_from_architecture(PRESETS[name])
        both = written.keys() & published.keys()
        assert {key: written[key] for key in both} == {
            key: published[key] for key in both
        }
        assert {"model_type", "vocab_size", "rope_theta", "architectures"} <= both


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_spelling_of_transformers_5_means_the_same(name: str) -> None:
    config = dict(PUBLISHED[name])
    scaling = config.pop("rope_scaling", None) or {"rope_type": "default"}
    config["rope_parameters"] = scaling | {"rope_theta": config.pop("rope_theta")}
    config["dtype"] = config.pop("torch_dtype")
    assert architecture_from_config(config) == PRESETS[name]
    config["rope_theta"] = config["rope_parameters"]["rope_theta"]
    config["rope_scaling"] = scaling
    assert architecture_from_config(config) == PRESETS[name]


def test_scaling_is_read_whole() -> None:
    scaling = architecture_from_config(LLAMA31).rope_scaling
    assert scaling == Llama3RopeScaling(8.0, 1.0, 4.0, 8192)


def test_families_differ_in_biases_and_norms() -> None:
    shapes = {
        name: jax.eval_shape(
            lambda name=name: initial_params(PRESETS[name], jax.random.key(0))
        )["layers"]
        for name in ("qwen3-0.6b", "qwen2.5-coder-0.5b", "smollm2-135m")
    }
    qwen3, qwen2, llama = (set(layer) for layer in shapes.values())
    assert qwen3 - llama == {"q_norm", "k_norm"}
    assert qwen2 - llama == {"q_bias_NH", "k_bias_KH", "v_bias_KH"}
    assert llama < qwen3 and llama < qwen2


@pytest.mark.parametrize(
    ("family", "field", "value"),
    [
        ("qwen3", "attention_bias", True),
        ("llama", "attention_bias", True),
        ("llama", "mlp_bias", True),
        ("llama", "pretraining_tp", 2),
        ("llama", "rope_interleaved", True),
        # Of Llama's own code it has no effect, of its descendants' it has.
        ("llama", "sliding_window", 4096),
        ("qwen2", "use_sliding_window", True),
        ("qwen2", "use_mrope", True),
        ("qwen3", "use_sliding_window", True),
        ("qwen3", "layer_types", ["full_attention", "sliding_attention"]),
        ("qwen2", "quantization_config", {"quant_method": "awq"}),
        ("llama", "hidden_act", "gelu"),
        ("qwen2", "attention_dropout", 0.1),
        # Of other families: not ours to ignore.
        ("qwen3", "mlp_bias", False),
        ("qwen2", "attention_bias", False),
        ("qwen3", "num_experts", 8),
        ("llama", "logits_scaling", 8.0),
        ("llama", "auto_map", {"AutoModel": "modeling.Model"}),
    ],
)
def test_what_is_not_implemented_is_refused_by_name(
    family: str, field: str, value: Any
) -> None:
    with pytest.raises(ValueError, match=f"config.json has .*{field}"):
        architecture_from_config(OF_FAMILY[family] | {field: value})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("rope_scaling", {"rope_type": "yarn", "factor": 4.0}, "'yarn'"),
        ("rope_scaling", {"type": "linear", "factor": 2.0}, "'linear'"),
        ("rope_parameters", {"rope_type": "longrope", "rope_theta": 5e5}, "'longrope'"),
        (
            "rope_scaling",
            LLAMA32["rope_scaling"] | {"attention_factor": 1.2},
            "attention_factor",
        ),
        (
            "rope_scaling",
            {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0},
            "without high_freq_factor, original_max_position_embeddings",
        ),
        (
            "rope_scaling",
            LLAMA32["rope_scaling"] | {"high_freq_factor": 1.0},
            "the first must be the lower",
        ),
        (
            "rope_parameters",
            LLAMA32["rope_scaling"] | {"factor": 8.0},
            "another rope_parameters",
        ),
    ],
)
def test_another_rotary_embedding_is_refused_by_name(
    field: str, value: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        architecture_from_config(LLAMA32 | {field: value})


@pytest.mark.parametrize(
    ("family", "change", "message"),
    [
        ("qwen3", {"model_type": "qwen3_moe"}, "model_type 'qwen3_moe'"),
        ("qwen3", {"head_dim": None}, "no head_dim"),
        ("qwen2", {"hidden_size": 1537}, "no head_dim"),
        ("llama", {"head_dim": 63}, "head_dim 63, which is odd"),
        ("llama", {"num_key_value_heads": 5}, "num_key_value_heads 5 does not divide"),
        ("llama", {"num_key_value_heads": None}, "no num_key_value_heads"),
        ("qwen2", {"tie_word_embeddings": None}, "no tie_word_embeddings"),
        ("qwen2", {"rope_theta": None}, r"rope_theta as \[\]"),
    ],
)
def test_a_file_that_does_not_add_up_is_refused(
    family: str, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        architecture_from_config(OF_FAMILY[family] | change)
