"""Architectures by name: what can be initialised at random, or planned for.

The sizes of published models are those of the config.json in the repository of the
Hugging Face hub that a comment names. Within a family the smallest is written out, and
the others say what differs.
"""

from jaxgrpo.device.model.architecture import Architecture, Llama3RopeScaling

_TINY = Architecture(
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
)

# Qwen/Qwen3-0.6B
_QWEN3 = Architecture(
    vocab_size=151_936,
    width=1024,
    num_layers=28,
    num_heads=16,
    num_kv_heads=8,
    head_width=128,
    mlp_width=3072,
    rope_theta=1e6,
    norm_eps=1e-6,
    is_tied=True,
    max_positions=40_960,
)
_QWEN3_4B = _QWEN3._replace(width=2560, num_layers=36, num_heads=32, mlp_width=9728)

# Qwen/Qwen2.5-Coder-0.5B-Instruct
_QWEN2_CODER = Architecture(
    vocab_size=151_936,
    width=896,
    num_layers=24,
    num_heads=14,
    num_kv_heads=2,
    head_width=64,
    mlp_width=4864,
    rope_theta=1e6,
    norm_eps=1e-6,
    is_tied=True,
    max_positions=32_768,
    family="qwen2",
)

# meta-llama/Llama-3.2-1B-Instruct
_LLAMA3 = Architecture(
    vocab_size=128_256,
    width=2048,
    num_layers=16,
    num_heads=32,
    num_kv_heads=8,
    head_width=64,
    mlp_width=8192,
    rope_theta=5e5,
    norm_eps=1e-5,
    is_tied=True,
    max_positions=131_072,
    family="llama",
    rope_scaling=Llama3RopeScaling(
        factor=32.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_positions=8192,
    ),
)

PRESETS = {
    # For tests: every mechanism, no size.
    "qwen3-tiny": _TINY,
    # 1.66 M parameters: what 2 CPU cores train in minutes.
    "qwen3-1.6m": _TINY._replace(
        width=192, num_layers=4, num_heads=6, head_width=32, mlp_width=512
    ),
    # The same with a larger vocabulary: 1.72 M.
    "qwen3-1.7m": _TINY._replace(
        vocab_size=704,
        width=192,
        num_layers=4,
        num_heads=6,
        head_width=32,
        mlp_width=512,
    ),
    "qwen3-0.6b": _QWEN3,
    # Qwen/Qwen3-1.7B, and so on.
    "qwen3-1.7b": _QWEN3._replace(width=2048, mlp_width=6144),
    "qwen3-4b": _QWEN3_4B,
    # Qwen/Qwen3-4B-Instruct-2507 and Qwen/Qwen3-4B-Thinking-2507.
    "qwen3-4b-2507": _QWEN3_4B._replace(rope_theta=5e6, max_positions=262_144),
    "qwen3-8b": _QWEN3._replace(
        width=4096, num_layers=36, num_heads=32, mlp_width=12_288, is_tied=False
    ),
    "qwen3-14b": _QWEN3._replace(
        width=5120, num_layers=40, num_heads=40, mlp_width=17_408, is_tied=False
    ),
    "qwen3-32b": _QWEN3._replace(
        width=5120, num_layers=64, num_heads=64, mlp_width=25_600, is_tied=False
    ),
    "qwen2.5-coder-0.5b": _QWEN2_CODER,
    # Qwen/Qwen2.5-Coder-1.5B-Instruct, and so on.
    "qwen2.5-coder-1.5b": _QWEN2_CODER._replace(
        width=1536, num_layers=28, num_heads=12, head_width=128, mlp_width=8960
    ),
    "qwen2.5-coder-7b": _QWEN2_CODER._replace(
        vocab_size=152_064,
        width=3584,
        num_layers=28,
        num_heads=28,
        num_kv_heads=4,
        head_width=128,
        mlp_width=18_944,
        is_tied=False,
    ),
    "llama-3.2-1b": _LLAMA3,
    # meta-llama/Llama-3.2-3B-Instruct
    "llama-3.2-3b": _LLAMA3._replace(
        width=3072, num_layers=28, num_heads=24, head_width=128
    ),
    # meta-llama/Llama-3.1-8B-Instruct, whose positions are stretched less.
    "llama-3.1-8b": _LLAMA3._replace(
        width=4096,
        num_layers=32,
        head_width=128,
        mlp_width=14_336,
        is_tied=False,
        rope_scaling=Llama3RopeScaling(8.0, 1.0, 4.0, 8192),
    ),
    # HuggingFaceTB/SmolLM2-135M-Instruct
    "smollm2-135m": Architecture(
        vocab_size=49_152,
        width=576,
        num_layers=30,
        num_heads=9,
        num_kv_heads=3,
        head_width=64,
        mlp_width=1536,
        rope_theta=1e5,
        norm_eps=1e-5,
        is_tied=True,
        max_positions=8192,
        family="llama",
    ),
}
"""Architectures by name."""
