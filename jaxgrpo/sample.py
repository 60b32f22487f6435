"""`jaxgrpo sample`: completions of one prompt, for a person, as they are drawn."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxgrpo.device.sampling.keys import PURPOSE_SAMPLE, run_key
from jaxgrpo.engine import Engine, Progress, Request, Sample
from jaxgrpo.host.constraints import check_pattern, parse_constraint
from jaxgrpo.host.prompts import stable_hash
from jaxgrpo.host.records import Problem
from jaxgrpo.host.stop_strings import StopStrings
from jaxgrpo.policy import Policy
from jaxgrpo.sampling import build_engine
from jaxgrpo.source import Source, open_source

_WIDTH_STEP = 64
"""Prompt widths are multiples of this, so that other prompts need no new program."""
_TOKENS_AT_A_TIME = 8
"""Tokens between two looks at what was drawn."""


def sampled_pieces(
    source: str,
    prompt: str,
    *,
    num_samples: int,
    temperature: float,
    max_new_tokens: int,
    seed: int,
    constraint: str = "",
) -> Iterator[tuple[int, str]]:
    """Pieces of the completions of one user message, as soon as they are known.

    Pieces of a completion come in order and are its text if joined; all of one
    completion come before those of the next, whose text is drawn meanwhile. Stop
    strings and truncation are those of the source's configuration, and so is the
    constraint if none is given.

    Args:
      source: Run folder, checkpoint folder, or `builtin:NAME`.
      prompt: The user's message.
      num_samples: Completions to draw.
      temperature: Softmax temperature; 0 is greedy.
      max_new_tokens: Token budget of each.
      seed: The same seed draws the same completions.
      constraint: As `sampling.constraint`; holds from the first token.

    Returns:
      Pairs of the completion's number, from 0, and a piece; at least one a completion.

    Raises:
      ValueError: If prompt and budget exceed what the model was made for.
    """
    if constraint:
        # Before the model is loaded.
        check_pattern(parse_constraint(constraint))
    loaded = open_source(source, [])
    policy = loaded.policy
    problem = Problem(id="prompt", kind="output", prompt=prompt, reference="")
    token_ids = policy.encode(problem).token_ids
    length, limit = len(token_ids), policy.architecture.max_positions
    if length + max_new_tokens > limit:
        raise ValueError(
            f"the prompt has {length} tokens and --max-new-tokens is {max_new_tokens}, "
            f"together more than the model's {limit}. Shorten one of them."
        )
    changes: dict[str, Any] = {
        "max_new_tokens": max_new_tokens,
        "segment_tokens": _TOKENS_AT_A_TIME,
    }
    if constraint:
        none = {"constraint_after": "", "constraint_until": ""}
        changes |= {"constraint": constraint} | none
    engine = _engine(loaded, length, num_samples, temperature == 0.0, changes)
    request = Request(
        token_ids=token_ids,
        problem_hash=stable_hash(problem.id),
        constraint_id=int(engine.settings.is_constrained),
    )
    segments = engine.segments(
        loaded.params,
        [request],
        run_key=run_key(seed, PURPOSE_SAMPLE, 0),
        temperature=temperature or 1.0,
    )
    yield from _pieces(segments, policy, engine.stop, num_samples)


def _pieces(
    segments: Iterator[Progress],
    policy: Policy,
    stop: StopStrings | None,
    num_samples: int,
) -> Iterator[tuple[int, str]]:
    number, shown = 0, ""
    for progress in segments:
        (group,) = progress.completed or progress.drawn
        while number < num_samples:
            sample = group.samples[number]
            text = _known_text(sample, policy, stop)
            yield number, text.removeprefix(shown)
            shown = text
            if sample.finish_reason is None:
                break
            number, shown = number + 1, ""


def _known_text(sample: Sample, policy: Policy, stop: StopStrings | None) -> str:
    """The text so far, as far as no later token can change it."""
    text, offsets = policy.decode(np.array(sample.token_ids, np.int32))
    if sample.finish_reason == "stop":
        assert stop is not None
        return stop.trimmed(text, offsets)[0]
    if sample.finish_reason is not None:
        return text
    # Half a character reads as a replacement character until the rest comes.
    text = text.rstrip("\ufffd")
    num_held = len(sample.carried.decode(errors="ignore"))
    return text[: max(len(text) - num_held, 0)]


def _engine(
    loaded: Source,
    num_prompt_tokens: int,
    num_samples: int,
    is_greedy: bool,
    changes: dict[str, Any],
) -> Engine:
    """The source's engine, for one prompt and with changed sampling."""
    config = loaded.config
    width = -(-num_prompt_tokens // _WIDTH_STEP) * _WIDTH_STEP
    tables = {
        "sampling": config.sampling.model_copy(update=changes),
        "prompt": config.prompt.model_copy(update={"max_prompt_tokens": width}),
    }
    return build_engine(
        config.model_copy(update=tables),
        loaded.policy,
        group_size=num_samples,
        num_slots=1,
        is_greedy=is_greedy,
    )
