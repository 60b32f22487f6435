"""The tokenizer of the built-in models: bytes, pieces of Python, Qwen's specials.

A text is cut at the longest piece that fits, so common code (` for `, `.append(`)
costs one token, while the values in it stay one character per token: a model that
copies or reverses a string sees its letters. What is no piece is written in bytes;
every text comes back as it was.
"""

from pathlib import Path

from jaxgrpo.problems import piece_tokenizer

PIECES = (
    # Roles of the chat template.
    "system\n", "user\n", "assistant\n", "\n\n",
    # Lines and their indentation.
    "def f(", "):\n ", ":\n ", ":\n  ", ":\n   ", "\n ", "\n  ", "\n   ",
    "\n return ", "\nf(", ")\nf(", "]\nf(", "\n if ", "\n while ", "):\n return ",
    ")\n return ", "]\n return ", ":\n  return ", "):\n if ", ":\n  if ",
    "\n for i in ", "\n for c in ", "\n for k, v in ",
    # Words and operators.
    " in ", " if ", " else ", " for i in ", " for c in ", " for k, v in ",
    "for ", "if ", "while ", "return ", "break", "lambda ",
    " = ", " == ", " != ", " > ", " < ", " + ", " - ", " * ",
    " // ", " % ", " += ", " -= ", " % 2 == ", "[::-1]", "[::2]", "[1:-1]",
    # Functions and methods.
    "abs(", "dict(", "divmod(", "enumerate(", "len(", "list(", "max(", "min(",
    "range(", "set(", "sorted(", "str(", "sum(", "tuple(", "zip(",
    ".append(", ".count(", ".find(", ".get(", ".insert(", ".items()",
    ".pop(", ".pop()", ".replace(", ".reverse()", ".setdefault(", ".sort()",
    ".split(", ".startswith(", ".strip(", ".title()", ".upper()", ".values()",
    "''.join(", "'-'.join(", "' '.join(",
    # Literals: brackets and separators, never a value's own characters.
    "True", "False", "None", ", ", ": ", "()", "[]", "{}", "''", "', '", "': ", ", '",
    "', ", "['", "']", "{'", "('", "')", "[[", "]]", "], [", "[(", ")]", "), (", ": [",
    ",)", "))", "])",
    # Literals as JSON writes them, and the words around an answer.
    "true", "false", "null", '""', '","', '":', ',"', '",', '["', '"]', '{"', '("',
    '")', '", "', '": ', ', "', '", ', "],[", "),(", ":[",
    "Answer: ", "The result is ", "Output: ",
)  # fmt: skip
"""Texts of one token, besides the 256 bytes."""


def write_tokenizer(folder: Path) -> None:
    """Writes the tokenizer's files, always the same bytes.

    The folder then loads with `transformers.AutoTokenizer.from_pretrained(folder)`.

    Args:
      folder: Made if missing.
    """
    piece_tokenizer.write_tokenizer(folder, PIECES)
