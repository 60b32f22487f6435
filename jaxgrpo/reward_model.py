"""A learned reward model as both machines see it: texts in, scores out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from jaxgrpo.config import ModelConfig
from jaxgrpo.device.mesh import num_row_shards, placed_like
from jaxgrpo.device.model.architecture import Architecture
from jaxgrpo.device.model.decoder import initial_params
from jaxgrpo.device.model.forward_settings import ForwardSettings
from jaxgrpo.device.placement import state_shardings
from jaxgrpo.device.records import Prompts
from jaxgrpo.device.reward_model import reward_params, reward_scores
from jaxgrpo.host.judge.fences import parses
from jaxgrpo.host.prompts import encode_answered, load_tokenizer
from jaxgrpo.host.records import Problem
from jaxgrpo.host.user_message import user_message
from jaxgrpo.policy import forward_settings
from jaxgrpo.weights.folder import checkpoint_folder, is_reward_model, read_json
from jaxgrpo.weights.reward_model import (
    EXPORT,
    RewardInput,
    load_reward_architecture,
    load_reward_input,
    load_reward_params,
    reward_model_folder,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

ROWS = 64
"""Conversations that are scored at a time."""
_NARROWEST = 32
_SHALLOW = 8
"""So few layers are unrolled: faster, and compiled as soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Turns a problem and its answer into what a reward model reads."""

    tokenizer: "PreTrainedTokenizerFast"
    shown: RewardInput

    def read(self, problem: Problem, answer: str) -> tuple[np.ndarray, bool]:
        """The conversation's token ids, and whether their end had to be cut off.

        Args:
          problem: Its message is the user's.
          answer: What was extracted from a completion, alone.
        """
        message = user_message(problem, self.shown.template)
        token_ids = encode_answered(self.tokenizer, message, answer)
        limit = self.shown.max_tokens
        return token_ids[:limit], len(token_ids) > limit


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModel:
    """Scores answers to problems."""

    architecture: Architecture
    """Of the backbone."""
    params: Any
    reader: Reader
    forward: ForwardSettings

    def scores(
        self, asked: Sequence[tuple[Problem, str]]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The score of each answer, and whether its end had to be cut off.

        An answer that is no Python has none: its score is minus infinity.

        Args:
          asked: Problems with what was extracted from a completion; maybe nothing.
        """
        is_valid = [bool(answer.strip()) and parses(answer) for _, answer in asked]
        places = [place for place, valid in enumerate(is_valid) if valid]
        read = [self.reader.read(*asked[place]) for place in places]
        scores = np.full(len(asked), -np.inf, np.float32)
        is_cut = np.zeros(len(asked), bool)
        scores[places] = scored(
            self.params, [ids for ids, _ in read], self.architecture, self.forward
        )
        is_cut[places] = [cut for _, cut in read]
        return scores, is_cut


def load_reward_model(source: str, mesh: Mesh | None = None) -> RewardModel:
    """The reward model of a checkpoint.

    Args:
      source: Run of `jaxgrpo train-reward`, or a checkpoint folder.
      mesh: What the weights lie on; this process's first device if not given.

    Raises:
      ValueError: It is no reward model, or its tokenizer does not fit it.
    """
    folder = reward_model_folder(source)
    architecture = load_reward_architecture(folder)
    tokenizer = load_tokenizer(folder)
    check_tokenizer(tokenizer, architecture, source)
    shown = load_reward_input(folder)
    if shown.max_tokens > architecture.max_positions:
        shown = RewardInput(
            max_tokens=architecture.max_positions, template=shown.template
        )
    shardings = None
    if mesh is not None:
        shapes = jax.eval_shape(
            lambda: reward_params(initial_params(architecture, jax.random.key(0)))
        )
        shardings = state_shardings(shapes, mesh)
    return RewardModel(
        architecture=architecture,
        params=load_reward_params(folder, architecture, shardings),
        reader=Reader(tokenizer=tokenizer, shown=shown),
        forward=reward_forward(architecture),
    )


def is_reward_source(source: str) -> bool:
    """Whether a name is that of a reward model, and not of a policy.

    Args:
      source: Run, checkpoint folder, or `builtin:NAME`.
    """
    folder = checkpoint_folder(source)
    if (folder / "config.toml").is_file():
        return (folder / EXPORT / "config.json").is_file() and is_reward_model(
            read_json(folder / EXPORT / "config.json")
        )
    config = folder / "config.json"
    return config.is_file() and is_reward_model(read_json(config))


def reward_forward(
    architecture: Architecture, *, is_trained: bool = False
) -> ForwardSettings:
    """How a reward model is computed on the devices that are here.

    Args:
      architecture: Of its backbone.
      is_trained: Whether there is a backward pass, for which deep models keep less.
    """
    is_shallow = architecture.num_layers <= _SHALLOW
    model = ModelConfig(
        checkpoint="of the reward model",
        unroll_layers=is_shallow,
        remat="dots" if is_trained and not is_shallow else "none",
    )
    return forward_settings(model, architecture, jax.default_backend())


def check_tokenizer(
    tokenizer: "PreTrainedTokenizerFast", architecture: Architecture, source: str
) -> None:
    """Refuses a tokenizer that the model was not made with.

    Args:
      tokenizer: Beside the model.
      architecture: Of its backbone.
      source: Where both are from.

    Raises:
      ValueError: It has more tokens than the model, or no chat template.
    """
    if len(tokenizer) > architecture.vocab_size:
        raise ValueError(
            f"the tokenizer of {source} has {len(tokenizer)} tokens, its embedding "
            f"{architecture.vocab_size} rows. Put the tokenizer there that the reward "
            "model was trained with."
        )
    if not tokenizer.chat_template:
        raise ValueError(
            f"the tokenizer of {source} has no chat template, in which a reward model "
            "reads problem and answer. Add chat_template.jinja."
        )


def scored(
    params: Any,
    conversations: Sequence[np.ndarray],
    architecture: Architecture,
    forward: ForwardSettings,
) -> np.ndarray:
    """Scores of conversations, in their order; batches have few shapes.

    Args:
      params: Of a reward model.
      conversations: Token ids.
      architecture: Of its backbone.
      forward: How it is computed.
    """
    scores = np.zeros(len(conversations), np.float32)
    order = sorted(range(len(conversations)), key=lambda i: len(conversations[i]))
    parts = num_row_shards(params)
    num_rows = -(-ROWS // parts) * parts
    for start in range(0, len(order), num_rows):
        places = order[start : start + num_rows]
        token_ids_PS, lengths_P = padded([conversations[i] for i in places], num_rows)
        rows = Prompts(jnp.asarray(token_ids_PS), jnp.asarray(np.maximum(lengths_P, 1)))
        scores_P = reward_scores(
            params,
            placed_like(rows, params),
            architecture=architecture,
            forward=forward,
        )
        scores[places] = jax.device_get(scores_P)[: len(places)]
    return scores


def padded(rows: Sequence[np.ndarray], num_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Right-padded token ids and lengths; 0 tokens in rows that only pad.

    Args:
      rows: Token ids, at least one row.
      num_rows: Of the result.
    """
    width = row_width(max(map(len, rows)))
    token_ids_PS = np.zeros((num_rows, width), np.int32)
    lengths_P = np.zeros((num_rows,), np.int32)
    for place, token_ids in enumerate(rows):
        token_ids_PS[place, : len(token_ids)] = token_ids
        lengths_P[place] = len(token_ids)
    return token_ids_PS, lengths_P


def row_width(length: int) -> int:
    """The padded width of a batch: few programs, and at most a third of it padding.

    Args:
      length: Of the longest row.

    Example:
      >>> [row_width(n) for n in (5, 33, 49, 65, 97, 4096)]
      [32, 48, 64, 96, 128, 4096]
    """
    width = _NARROWEST
    while width < length:
        if length <= width * 3 // 2:
            return width * 3 // 2
        width *= 2
    return width
