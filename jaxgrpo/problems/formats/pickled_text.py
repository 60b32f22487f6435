"""The text in a pickle that holds nothing else, read without unpickling.

A pickle is a program: to load one that somebody else wrote is to run it. This reader
knows the few instructions that a pickled `str` is made of, in every protocol, and
refuses all others.

Reference:
  https://docs.python.org/3/library/pickletools.html, whose disassembler tells the
  instructions apart and executes none.
"""

import pickletools

_HARMLESS = {"PROTO", "FRAME", "MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT"}
"""Which version it is, how long, and notes for later: nothing is made of them."""
_TEXT = {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}


def text_in_pickle(content: bytes) -> str:
    """Returns the text of which the content is a pickle.

    Args:
      content: Any bytes, also hostile.

    Raises:
      ValueError: It is a pickle of something else, or none.

    Example:
      >>> import pickle
      >>> text_in_pickle(pickle.dumps("[1, 2]"))
      '[1, 2]'
    """
    text: str | None = None
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name == "STOP" and text is not None:
            return text
        if opcode.name in _TEXT and text is None:
            assert isinstance(argument, str)
            text = argument
        elif opcode.name not in _HARMLESS:
            raise ValueError(f"a pickle with {opcode.name} is more than one text")
    raise ValueError("a pickle without an end")
