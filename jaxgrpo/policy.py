"""A model as both machines see it: architecture, weights, tokenizer, end tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import jax
from jax.sharding import Mesh

from jaxgrpo.config import Config, ModelConfig, PromptConfig
from jaxgrpo.device.mesh import param_shardings
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.attention.choice import (
    automatic_attention,
    check_attention,
)
from jaxgrpo.device.model.decoder import Params, initial_params
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.model.presets import PRESETS
from jaxgrpo.device.sampling.keys import PURPOSE_INIT
from jaxgrpo.host.decoding import decode_completion
from jaxgrpo.host.prompts import (
    Example,
    PromptStyle,
    encode_prompt,
    eos_token_ids,
    load_tokenizer,
    prompt_notes,
)
from jaxgrpo.host.records import Problem, Prompt
from jaxgrpo.weights import checkpoint_folder, load_architecture, load_params

if TYPE_CHECKING:
    import numpy as np
    from transformers import PreTrainedTokenizerFast


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What does not change while a model is trained or evaluated."""

    architecture: Architecture
    tokenizer: "PreTrainedTokenizerFast"
    tokenizer_folder: Path
    """Where its files lie; an export copies them."""
    weights_folder: Path | None
    """Checkpoint to start from; None for random weights."""
    eos_ids: tuple[int, ...]
    """Every id that ends a completion."""
    num_tokens: int
    """Length of the tokenizer; the embedding may have more rows."""
    forward: ForwardSettings
    style: PromptStyle
    """How problems are asked."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What its prompts are like against expectation, a line each."""
        return prompt_notes(self.tokenizer, self.style)

    def encode(self, problem: Problem, variant: str = "", hint: str = "") -> Prompt:
        """The problem's prompt; plain, or a variant of it with a hint."""
        return encode_prompt(self.tokenizer, problem, self.style, variant, hint)

    def decode(self, token_ids: "np.ndarray") -> tuple[str, "np.ndarray"]:
        """A completion's text and each token's characters in it."""
        return decode_completion(self.tokenizer, token_ids)


def load_policy(
    model: ModelConfig, prompt: PromptConfig, *, platform: str | None = None
) -> Policy:
    """The model that a configuration names; weights are loaded by `initial_weights`.

    Args:
      model: Checkpoint, or preset and tokenizer.
      prompt: How problems become prompts.
      platform: "cpu", "gpu" or "tpu": that of the devices that will run the model;
        of those present, if not given.

    Raises:
      ValueError: If the checkpoint is missing or is of another family, if the
        tokenizer has more tokens than the model has rows, or if the platform cannot
        compute attention as configured.
    """
    if model.checkpoint:
        folder = tokenizer_folder = checkpoint_folder(model.checkpoint)
        architecture = load_architecture(folder)
    else:
        folder, tokenizer_folder = None, checkpoint_folder(model.tokenizer)
        architecture = _preset(model.preset)
    tokenizer = load_tokenizer(tokenizer_folder)
    if len(tokenizer) > architecture.vocab_size:
        raise ValueError(
            f"the tokenizer has {len(tokenizer)} tokens, the model "
            f"{model.checkpoint or model.preset} has {architecture.vocab_size} rows. "
            "Use a tokenizer with fewer tokens, or a model with more rows."
        )
    return Policy(
        architecture=architecture,
        tokenizer=tokenizer,
        tokenizer_folder=tokenizer_folder,
        weights_folder=folder,
        eos_ids=eos_token_ids(tokenizer_folder, tokenizer),
        num_tokens=len(tokenizer),
        forward=forward_settings(
            model, architecture, platform or jax.default_backend()
        ),
        style=prompt_style(prompt),
    )


def prompt_style(prompt: PromptConfig) -> PromptStyle:
    """How a configuration asks problems."""
    return PromptStyle(
        format=prompt.format,
        system=prompt.system,
        template=prompt.template,
        examples=tuple(Example(e.user, e.assistant) for e in prompt.examples),
        enable_thinking=prompt.enable_thinking,
    )


def load_reference(config: Config) -> Policy | None:
    """The model of `evaluation.reference`, or None where there is none.

    Raises:
      ValueError: As `load_policy`; early, before anything is trained.
    """
    source = config.evaluation.reference
    if not source:
        return None
    model = config.model.model_copy(
        update={"checkpoint": source, "preset": "", "tokenizer": ""}
    )
    reference = load_policy(model, config.prompt)
    check_lengths(config, reference)
    return reference


def check_lengths(config: Config, policy: Policy) -> None:
    """Refuses prompts and completions that the model was not made for.

    Raises:
      ValueError: If prompt and completion may exceed the model's positions.
    """
    prompt, new = config.prompt.max_prompt_tokens, config.sampling.max_new_tokens
    limit = policy.architecture.max_positions
    if prompt + new > limit:
        raise ValueError(
            f"prompt.max_prompt_tokens {prompt} + sampling.max_new_tokens {new} = "
            f"{prompt + new} exceeds the model's {limit} positions. Lower one of them."
        )


def initial_weights(policy: Policy, config: Config, mesh: Mesh | None = None) -> Params:
    """The weights that a run starts from: loaded, or random from the run's seed.

    Each array is born where it lies: no device or host ever holds more than its share.
    They are float32 where they are trained, and in the dtype of the computation where
    they are the frozen base of adapters.

    Args:
      policy: The model.
      config: Of the run.
      mesh: What the weights lie on; this process's first device if not given.
    """
    dtype = policy.forward.dtype if config.lora.rank else "float32"
    if policy.weights_folder is None:
        key = jax.random.fold_in(jax.random.key(config.run.seed), PURPOSE_INIT)
        return _random_weights(policy.architecture, mesh, dtype)(key)
    shardings = None if mesh is None else param_shardings(policy.architecture, mesh)
    return load_params(policy.weights_folder, policy.architecture, shardings, dtype)


@lru_cache(maxsize=8)
def _random_weights(
    architecture: Architecture, mesh: Mesh | None, dtype: str
) -> Callable[[jax.Array], Params]:
    """The program that draws weights, each device its own part."""

    def draw(key: jax.Array) -> Params:
        params = initial_params(architecture, key)
        return jax.tree.map(lambda x: x.astype(dtype), params)

    shardings = None if mesh is None else param_shardings(architecture, mesh)
    return jax.jit(draw, out_shardings=shardings)


def _preset(name: str) -> Architecture:
    if name not in PRESETS:
        raise ValueError(
            f"model.preset {name!r} is unknown. Use one of {sorted(PRESETS)}."
        )
    return PRESETS[name]


def forward_settings(
    model: ModelConfig, architecture: Architecture, platform: str
) -> ForwardSettings:
    """How a configured model is computed on a platform.

    Args:
      model: The table; its `auto` is resolved here.
      architecture: Sizes of the model.
      platform: "cpu", "gpu" or "tpu": that of the devices that will run the program,
        which need not be present.

    Raises:
      ValueError: If the platform cannot compute attention as configured.
    """
    dtype = model.compute_dtype
    if dtype == "auto":
        dtype = "float32" if platform == "cpu" else "bfloat16"
    target = {
        "dtype": dtype,
        "head_width": architecture.head_width,
        "platform": platform,
    }
    attention = model.attention
    if attention == "auto":
        attention = automatic_attention(**target)
    check_attention(attention, **target)
    return ForwardSettings(
        dtype=dtype,
        attention=attention,
        unroll_layers=model.unroll_layers,
        remat=model.remat,
    )
