"""Texts that end a completion, found while its tokens come, also across tokens."""

from collections.abc import Iterable, Sequence

import numpy as np


class StopStrings:
    """Texts that end a completion, and the tokenizer they are looked for in.

    Args:
      texts: At least one; none empty.
      pieces: What each token id writes, from `prompts.token_bytes`.

    Raises:
      ValueError: If there is no text, or an empty one.
    """

    def __init__(self, texts: Sequence[str], pieces: Sequence[bytes]):
        if not texts or not all(texts):
            raise ValueError(
                f"stop strings are {list(texts)}. Give at least one, and no empty one."
            )
        self.texts = tuple(texts)
        self._pieces = pieces
        self._patterns = [text.encode() for text in texts]
        self._num_carried = max(map(len, self._patterns)) - 1

    def first_end(
        self, carried: bytes, token_ids: Iterable[int]
    ) -> tuple[int | None, bytes]:
        """Looks for the first token that completes one of the texts.

        Args:
          carried: What the last call returned; empty for a new completion.
          token_ids: The tokens that follow.

        Returns:
          How many of the tokens there are up to that one, or None; and what the next
          call needs.

        Example:
          >>> stop = StopStrings(["END"], [b"a", b"E", b"ND", b"b"])
          >>> stop.first_end(b"", [0, 1])
          (None, b'aE')
          >>> stop.first_end(b"aE", [2, 3])
          (1, b'')
        """
        for count, token_id in enumerate(token_ids, 1):
            written = carried + self._pieces[token_id]
            if any(pattern in written for pattern in self._patterns):
                return count, b""
            carried = written[max(len(written) - self._num_carried, 0) :]
        return None, carried

    def trimmed(
        self, text: str, token_offsets_T2: np.ndarray
    ) -> tuple[str, np.ndarray]:
        """The text up to the first of the texts in it, and each token's part of that.

        Args:
          text: Of a completion that one of the texts ended.
          token_offsets_T2: Each token's [start, end) in the text.

        Example:
          >>> stop = StopStrings(["END"], [])
          >>> stop.trimmed("abEND", np.array([[0, 1], [1, 3], [3, 5]]))
          ('ab', array([[0, 1],
                 [1, 2],
                 [2, 2]]))
        """
        start = text.index(self.found_in(text))
        return text[:start], np.minimum(token_offsets_T2, start)

    def found_in(self, text: str) -> str:
        """The first of the texts in a text that one of them ended.

        Args:
          text: Of the completion, not yet trimmed.

        Example:
          >>> StopStrings(["END", "b"], []).found_in("abEND")
          'b'
        """
        found = [(text.find(stop), len(stop), stop) for stop in self.texts]
        found = [place for place in found if place[0] >= 0]
        assert found, f"none of {self.texts} is in {text!r}"
        return min(found)[-1]
