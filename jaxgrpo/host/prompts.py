"""Problems to prompts: the only place that encodes text for a policy to go on from.

Token ids are the truth on both sides of the model. A prompt is encoded once and never
truncated; a completion is decoded for reading and judging, never encoded again.
"""

import hashlib
import json
import logging
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from jaxgrpo.host.records import Problem, Prompt
from jaxgrpo.host.user_message import PLAIN_TEMPLATE, user_message

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

THINKING_START = "<think>"
TEMPLATE_DATE = "26 Jul 2024"
"""What chat templates of Llama 3 write as today: their own text where none is known."""


def load_tokenizer(folder: str | Path) -> "PreTrainedTokenizerFast":
    """Returns the tokenizer of a folder in Hugging Face layout, without any network.

    Args:
      folder: Holds `tokenizer.json` and `tokenizer_config.json`.
    """
    folder = Path(folder)
    if not (folder / "tokenizer.json").is_file():
        raise ValueError(
            f"no tokenizer.json in {str(folder)!r}. Give a folder that holds it and "
            "tokenizer_config.json, as a Hugging Face checkpoint does."
        )
    return _auto_tokenizer().from_pretrained(folder, local_files_only=True)


def _auto_tokenizer() -> type:
    # Imported late: it takes seconds, and workers never need it. On import it warns
    # that models need PyTorch, which would mislead here: only tokenizers are used.
    logger = logging.getLogger("transformers")
    logger.addFilter(_is_not_about_pytorch)
    try:
        from transformers import AutoTokenizer
    finally:
        logger.removeFilter(_is_not_about_pytorch)
    return AutoTokenizer


def _is_not_about_pytorch(record: logging.LogRecord) -> bool:
    return "PyTorch was not found" not in record.getMessage()


def eos_token_ids(
    folder: str | Path, tokenizer: "PreTrainedTokenizerFast"
) -> tuple[int, ...]:
    """Returns every token id that is declared to end a completion.

    These are the ids of `generation_config.json` (one or a list), or of `config.json`
    where that file names none, followed by the tokenizer's own, without repeats. Chat
    models often declare two (Qwen3: 151645 and 151643); a sampler that honours one of
    them counts finished completions as cut off.

    Args:
      folder: Checkpoint folder; both files may be absent.
      tokenizer: The tokenizer of the same folder.
    """
    declared = _declared_eos(Path(folder) / "generation_config.json")
    declared = declared or _declared_eos(Path(folder) / "config.json")
    own = tokenizer.eos_token_id
    if own is not None:
        assert isinstance(own, int)
        declared = (*declared, own)
    if not declared:
        raise ValueError(
            f"no end-of-sequence token is declared in {str(folder)!r}. Set eos_token "
            "in tokenizer_config.json or eos_token_id in generation_config.json."
        )
    return tuple(dict.fromkeys(declared))


def _declared_eos(path: Path) -> tuple[int, ...]:
    if not path.is_file():
        return ()
    value = json.loads(path.read_text(encoding="utf-8")).get("eos_token_id")
    if value is None:
        return ()
    ids = value if isinstance(value, list) else [value]
    if not all(type(token_id) is int and token_id >= 0 for token_id in ids):
        raise ValueError(
            f"eos_token_id in {str(path)!r} is {value!r}. "
            "Make it a token id or a list of token ids."
        )
    return tuple(ids)


class Example(NamedTuple):
    """A turn of the conversation before the problem's: a question, answered."""

    user: str
    assistant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptStyle:
    """How problems become prompts."""

    format: Literal["chat", "plain"] = "chat"
    """By the tokenizer's chat template, or as text without any."""
    system: str = ""
    """The system message; empty for none."""
    template: str = PLAIN_TEMPLATE
    """Of the user's message."""
    examples: tuple[Example, ...] = ()
    """Shown before the problem, in order."""
    enable_thinking: bool = False
    """Passed to the chat template. Qwen3's writes an empty think block into the prompt
    when it is false; templates that do not know it ignore it."""


def encode_prompt(
    tokenizer: "PreTrainedTokenizerFast",
    problem: Problem,
    style: PromptStyle,
    variant: str = "",
    hint: str = "",
) -> Prompt:
    """Returns the prompt of a problem.

    The rendered text ends where the completion begins. It is never truncated, whatever
    length the tokenizer's files ask for. The date that Llama 3's templates write is a
    fixed one, so that prompts are the same every day.

    Args:
      tokenizer: Has a chat template, if the style asks for one.
      problem: What to ask.
      style: How to ask.
      variant: Empty for the plain prompt, `hint-K` to add the problem's K-th hint (from
        1), or another name of `prompt_variants` with what it adds as `hint`.
      hint: Text that is added in the place of a hint of the problem's own.

    Raises:
      ValueError: The tokenizer has no chat template, or the problem lacks what the
        template of the message names.
    """
    message = user_message(problem, style.template, variant, hint)
    if style.format == "plain":
        text, token_ids = _plain(tokenizer, message, style)
    else:
        text = _chat(tokenizer, message, style)
        # The template wrote the special tokens; the tokenizer must not add its own.
        token_ids = _token_ids(tokenizer, text, add_special_tokens=False)
    return Prompt(
        problem_id=problem.id,
        variant=variant,
        text=text,
        token_ids=np.asarray(token_ids, dtype=np.int32),
    )


def encode_answered(
    tokenizer: "PreTrainedTokenizerFast", message: str, answer: str
) -> np.ndarray:
    """Returns the token ids of a message with its answer, int32, never truncated.

    The chat template ends the answer's turn; nothing is to follow.

    Args:
      tokenizer: Has a chat template.
      message: What the user says.
      answer: What the assistant says.

    Raises:
      ValueError: The tokenizer has no chat template.
    """
    turns = [
        {"role": "user", "content": message},
        {"role": "assistant", "content": answer},
    ]
    text = _rendered(tokenizer, turns)
    ids = _token_ids(tokenizer, text, add_special_tokens=False)
    return np.asarray(ids, dtype=np.int32)


def _chat(
    tokenizer: "PreTrainedTokenizerFast", message: str, style: PromptStyle
) -> str:
    messages = [{"role": "system", "content": style.system}] if style.system else []
    for example in style.examples:
        messages.append({"role": "user", "content": example.user})
        messages.append({"role": "assistant", "content": example.assistant})
    messages.append({"role": "user", "content": message})
    return _rendered(tokenizer, messages, enable_thinking=style.enable_thinking)


def _rendered(
    tokenizer: "PreTrainedTokenizerFast",
    messages: list[dict[str, str]],
    enable_thinking: bool = False,
) -> str:
    """A conversation as text; what follows a user is for the assistant to say."""
    if not tokenizer.chat_template:
        raise ValueError(
            'the tokenizer has no chat template. Set prompt.format = "plain" for a '
            "base model, or add chat_template.jinja to the tokenizer's folder."
        )
    text = tokenizer.apply_chat_template(
        messages,
        tokenize=False,
        add_generation_prompt=messages[-1]["role"] == "user",
        enable_thinking=enable_thinking,
        date_string=TEMPLATE_DATE,
    )
    assert isinstance(text, str)
    return text


def _plain(
    tokenizer: "PreTrainedTokenizerFast", message: str, style: PromptStyle
) -> tuple[str, list[int]]:
    """Text and token ids; a token that the tokenizer begins texts with is kept."""
    shown = [example.user + example.assistant for example in style.examples]
    text = "\n\n".join([*filter(None, [style.system]), *shown, message])
    bare = _token_ids(tokenizer, text, add_special_tokens=False)
    token_ids = _token_ids(tokenizer, text, add_special_tokens=True)
    if token_ids[len(token_ids) - len(bare) :] != bare:
        raise ValueError(
            "the tokenizer ends texts with a token of its own, after which no "
            "completion goes on. Set add_eos_token to false in tokenizer_config.json."
        )
    return text, token_ids


def _token_ids(
    tokenizer: "PreTrainedTokenizerFast", text: str, *, add_special_tokens: bool
) -> list[int]:
    return tokenizer(
        text, add_special_tokens=add_special_tokens, truncation=False, verbose=False
    )["input_ids"]


def ends_in_thought(prompt: Prompt) -> bool:
    """Returns whether a completion of the prompt begins inside a thought.

    Some templates open the thought themselves, so that completions only end it.

    Args:
      prompt: Rendered.
    """
    return prompt.text.rstrip().endswith(THINKING_START)


def prompt_notes(
    tokenizer: "PreTrainedTokenizerFast", style: PromptStyle
) -> tuple[str, ...]:
    """Returns what a chat template does that its user would not expect, a line each.

    Args:
      tokenizer: With its chat template.
      style: How problems are asked.
    """
    if style.format == "plain":
        return ()
    notes: list[str] = []
    texts = [
        _chat(tokenizer, "?", replace(style, enable_thinking=is_on)).rstrip()
        for is_on in (False, True)
    ]
    opens_thought = texts[style.enable_thinking].endswith(THINKING_START)
    if not style.enable_thinking and opens_thought:
        notes.append(
            "prompt.enable_thinking is false, but the chat template opens a thought in "
            "every prompt; completions begin inside it."
        )
    if style.enable_thinking and not opens_thought and texts[0] == texts[1]:
        notes.append(
            "prompt.enable_thinking is true, but the chat template does not look at "
            "it; prompts are the same as without."
        )
    template = str(tokenizer.chat_template)
    if "strftime_now" in template and "date_string" not in template:
        notes.append(
            "the chat template writes today's date into prompts; they, and what is "
            "sampled, change from day to day."
        )
    return tuple(notes)


def split_by_length(
    prompts: Sequence[Prompt], max_tokens: int
) -> tuple[list[Prompt], list[Prompt]]:
    """Returns the prompts that fit, in order, and those that do not, in order.

    Nothing is shortened. The caller reports how many it drops: the length of the
    second list.

    Args:
      prompts: Any number of prompts.
      max_tokens: Largest number of tokens that fits.
    """
    fitting = [prompt for prompt in prompts if len(prompt.token_ids) <= max_tokens]
    too_long = [prompt for prompt in prompts if len(prompt.token_ids) > max_tokens]
    return fitting, too_long


def stable_hash(problem_id: str) -> tuple[int, int]:
    """Returns two 32-bit numbers that name a problem in random keys.

    The same on every machine, process and Python version (unlike `hash`).

    Example:
      >>> stable_hash("train-17")
      (815446964, 1872510412)
    """
    digest = hashlib.blake2b(
        problem_id.encode("utf-8", "surrogatepass"), digest_size=8
    ).digest()
    first, second = struct.unpack("<II", digest)
    return first, second
