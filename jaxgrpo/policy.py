"""A model as both machines see it: architecture, weights, tokenizer, end tokens."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jax

from jaxgrpo.config import Config, ModelConfig, PromptConfig
from jaxgrpo.device.model.architecture import PRESETS, Architecture
from jaxgrpo.device.model.decoder import Params, initial_params
from jaxgrpo.device.sampling.keys import PURPOSE_INIT
from jaxgrpo.device.sampling.sample import SamplerSettings
from jaxgrpo.host.prompts import (
    decode_completion,
    encode_prompt,
    eos_token_ids,
    load_tokenizer,
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
    dtype: str
    """Arithmetic of the forward pass."""
    unroll_layers: bool
    remat: bool
    system: str
    enable_thinking: bool

    def encode(self, problem: Problem) -> Prompt:
        """The problem's plain prompt."""
        return encode_prompt(
            self.tokenizer,
            problem,
            system=self.system,
            enable_thinking=self.enable_thinking,
        )

    def decode(self, token_ids: "np.ndarray") -> tuple[str, "np.ndarray"]:
        """A completion's text and each token's characters in it."""
        return decode_completion(self.tokenizer, token_ids)

    def sampler(
        self, *, group_size: int, max_new_tokens: int, is_greedy: bool = False
    ) -> SamplerSettings:
        """The sampler's settings for this model."""
        return SamplerSettings(
            group_size=group_size,
            max_new_tokens=max_new_tokens,
            eos_ids=self.eos_ids,
            num_tokens=self.num_tokens,
            dtype=self.dtype,
            is_greedy=is_greedy,
            unroll_layers=self.unroll_layers,
        )


def load_policy(model: ModelConfig, prompt: PromptConfig) -> Policy:
    """The model that a configuration names; weights are loaded by `initial_weights`.

    Args:
      model: Checkpoint, or preset and tokenizer.
      prompt: How problems become prompts.

    Raises:
      ValueError: If the checkpoint is missing or is of another family, or if the
        tokenizer has more tokens than the model has rows.
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
        dtype=_dtype(model.compute_dtype),
        unroll_layers=model.unroll_layers,
        remat=model.remat == "full",
        system=prompt.system,
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


def initial_weights(policy: Policy, config: Config) -> Params:
    """The weights that a run starts from: loaded, or random from the run's seed."""
    if policy.weights_folder is None:
        key = jax.random.fold_in(jax.random.key(config.run.seed), PURPOSE_INIT)
        return initial_params(policy.architecture, key)
    # On the host: the caller lays them out, and no single device has to hold them all.
    return load_params(policy.weights_folder, policy.architecture)


def _preset(name: str) -> Architecture:
    if name not in PRESETS:
        raise ValueError(
            f"model.preset {name!r} is unknown. Use one of {sorted(PRESETS)}."
        )
    return PRESETS[name]


def _dtype(choice: str) -> str:
    if choice != "auto":
        return choice
    return "float32" if jax.default_backend() == "cpu" else "bfloat16"
