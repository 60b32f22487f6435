"""The tokenizer of the built-in model that writes programs.

Words and code of the data set are one token each, with the blank or the line break
before them; digits and letters that stand for values stay one character a token.
"""

from pathlib import Path

from jaxgrpo.problems import piece_tokenizer

_SENTENCES = (
    "Write a function f(", ") that returns", " numbers of xs", " letters of s",
    " words of ws", "; then", " that are", " that have", " if there is none",
    ", stopping before the first that", ", each", ", or", ", else", ", without repeats",
    ". If", " has fewer than", ", it returns", " positions", " greater than",
    " more than", " less than", " fewer than", " at least", " at most", " up to",
    " followed by", " divisible by", " from last to first", " from", " upper case",
    " first letter", " not including", " remainder 1 when divided by",
    " halved and rounded down",
)  # fmt: skip
"""Turns of phrase of the specifications."""

_HINTS = (
    "Knowledge:", "Plan:", "Solution:", "\n- ", "\n\n", " itself", "Go through the",
    "Start an empty", "Start a", "Return the", "Return it", "Return",
    "Answer a short argument first.", " at once.", " when it is divided by",
    " leaves no remainder", " the alphabet",
)  # fmt: skip
"""Headings and turns of phrase of hints."""

_WORDS = """
False None Start True a absolute add after again all already among an and answer any
append appended are argument around asked at backwards been before begin below but by
cap capped changed come comes compare consonant consonants contain contains count
counts dash decreased dictionary digits divided division do does down drop each
earlier element elements else empty end ends even except first for function gives goes
grows have has holds in including increased is it its joined keep kept known lacks
large larger largest last least leave leaves length letter letters list longer loop
means met method modulo most multiple multiples multiplied multiply negate negated
negative never no none not nothing number numbers odd of on once one ones operator or
order out over plus position positive product raise range reach remainder remember
remembered repeats replace replaced result return reverse running short shorter sign
slice small smaller smallest so sort square squared start starts step string subtract
sum sums take takes taken text than that the then there through times to total turns
twice unless until up value vowel vowels what whatever when whether which whole with
without word words write written ws xs yet
""".split()
_FIRST_WORDS = """
Add An Append At Every Greater If Keep Later Less Letters Modulo Multiply Negating Of
Only Rounding Sorting Texts The Unless What Whether Zero none short ws xs aeiou
""".split()

_CODE = (
    "def f(", "):", ", k", "\n    ", "\n        ", "\n            ",
    "\n    for x in", "\n    for c in", "\n    for w in", "\n    if", "\n    return",
    "\n        if", "\n        else:", "\n        return", "\n            break",
    "\n            return", " for x in", " for c in", " for w in", " if",
    "total", "count", "result", "best", "last", "counts", " last", " best", " counts",
    " =", " +=", " *=", " ==", " !=", " <", " <=", " >", " >=", " +", " -", " *", " //",
    " %", " x", " c", " w", " n", " k", " s", " not in", " not (", " [", " []", " {}",
    " ''", "''", " '-'", " '?'", " 'none'", " 'short'", " 'aeiou'", "len(", " len(",
    "max(", " max(", "min(", " min(", "sum(", " sum(", "abs(", " abs(", " any(",
    " all(", " sorted(", "sorted(", "range(", " range(", " map(int, str(n))",
    " ''.join(", "''.join(", ".append(", ".upper()", ".get(", "[::-1]", "[::2]",
    "[1::2]", "[:-1]", "[:", ":]", "[-1]", "[0]", ", 0) + 1", ", -1)",
    ", n + 1)", "))", "')", " -x", "-x",
)  # fmt: skip
"""Pieces of programs. None reaches over the end of a statement."""

_DIGITS = tuple(f" {digit}" for digit in range(10))
_LETTERS = tuple(f" '{letter}'" for letter in "abcdefgh")

PIECES = tuple(
    dict.fromkeys(
        (
            "system\n", "user\n", "assistant\n", *_SENTENCES, *_HINTS,
            *(f" {word}" for word in _WORDS), *_FIRST_WORDS, *_CODE, *_DIGITS,
            *_LETTERS,
        )
    )
)  # fmt: skip
"""Texts of one token, besides the 256 bytes."""


def write_tokenizer(folder: Path) -> None:
    """Writes the tokenizer's files, always the same bytes.

    The folder then loads with `transformers.AutoTokenizer.from_pretrained(folder)`.

    Args:
      folder: Made if missing.
    """
    piece_tokenizer.write_tokenizer(folder, PIECES)
