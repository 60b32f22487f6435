r"""The grammar `python_literal`: what `repr` writes and `ast.literal_eval` reads.

One literal on one line: None, True, False, numbers (negative, with exponent, complex),
strings and bytes in single or double quotes, and lists, tuples, sets and dicts of them.
It is narrower than Python where `repr` is:

- a blank may follow a comma or a colon, and stand before the whole; none elsewhere;
- numbers are decimal, without `_`, leading zeros or a plus sign;
- strings have no prefix but `b`, no triple quotes, no neighbours to be joined with;
  escapes are `\\ \' \" \n \r \t \xhh`, in strings also `\uhhhh` and `\Uhhhhhhhh`;
- characters that end a line for `str.splitlines`, and control characters, must be
  escaped.

It is wider in few ways: `(1)` and `(1, 2,)` are allowed, either quote whatever the
string holds, capital hex digits, characters that `repr` would escape. `set()` is
allowed, as `ast.literal_eval` reads it; inf, nan, Ellipsis and frozenset are not.
Digits are not counted: Python refuses integers of more than 4,300
(`sys.set_int_max_str_digits`).

What is in a set or is the key of a dict must be hashable: no list, dict or set may be
inside, however deep in tuples. The stack tells so: a parenthesis has one symbol for
each case, and after a brace all is hashable until a colon has shown a dict's value.
"""

from jaxgrpo.host.constraints.byte_automaton import ByteAutomaton, Sketch
from jaxgrpo.host.constraints.lexemes import (
    HEX,
    add_characters,
    add_hex_escapes,
    add_number,
)
from jaxgrpo.host.constraints.stack_moves import (
    BOTTOM,
    KEEP,
    either,
    kept,
    move,
    popped,
    pushed,
)

LIST, PARENTHESIS, TUPLE, HASHABLE_PARENTHESIS, HASHABLE_TUPLE = 1, 2, 3, 4, 5
BRACE, SET, KEY, VALUE = 6, 7, 8, 9
"""A brace is undecided until a comma or a colon; KEY and VALUE are sides of a dict."""

_ANYTHING = (BOTTOM, LIST, PARENTHESIS, TUPLE, VALUE)
"""Within these, a value may be of any kind."""
_HASHABLE = (HASHABLE_PARENTHESIS, HASHABLE_TUPLE, BRACE, SET, KEY)
_PARENTHESES = (PARENTHESIS, TUPLE, HASHABLE_PARENTHESIS, HASHABLE_TUPLE)

_COMMA = move(
    {
        LIST: (LIST,),
        PARENTHESIS: (TUPLE,),
        TUPLE: (TUPLE,),
        HASHABLE_PARENTHESIS: (HASHABLE_TUPLE,),
        HASHABLE_TUPLE: (HASHABLE_TUPLE,),
        BRACE: (SET,),
        SET: (SET,),
        VALUE: (KEY,),
    }
)
_COLON = move({BRACE: (VALUE,), KEY: (VALUE,)})
_PARENTHESIS = either(
    pushed(PARENTHESIS, _ANYTHING), pushed(HASHABLE_PARENTHESIS, _HASHABLE)
)

_PRINTABLE = bytes(range(0x20, 0x7F))
_SIMPLE_ESCAPES = b"\\'\"nrt"


def python_literal() -> ByteAutomaton:
    """Returns the automaton of one Python literal on one line."""
    sketch = Sketch()
    number_ends = _add_values(sketch)
    _add_brackets(sketch)
    sketch.edge("start", b" ", "value")
    sketch.also("start", "value")
    for end in number_ends:
        sketch.also(end, "closed")
    for end in ("closed", *number_ends):
        sketch.accept(end)
    return sketch.automaton(start="start", closed="closed")


def _add_values(sketch: Sketch) -> tuple[str, ...]:
    """Adds all but the brackets; returns the states in which a number may end."""
    for word in (b"None", b"True", b"False"):
        sketch.word("value", word, "closed")
    sketch.word("value", b"set()", "closed", kept(_ANYTHING))
    for quote in b"'\"":
        _add_string(sketch, "value", quote)
        _add_bytes(sketch, "b", quote)
    sketch.edge("value", b"b", "b")
    sketch.edge("value", b"-", "minus")
    # A complex number is a real one, a sign and an imaginary one.
    real = add_number(sketch, "real", {"value": KEEP, "minus": KEEP}, b"e")
    imaginary = add_number(sketch, "imaginary", {"sign": KEEP}, b"e")
    for end in real:
        sketch.edge(end, b"+-", "sign")
    for end in (*real, *imaginary):
        sketch.edge(end, b"j", "closed")
    return real


def _add_string(sketch: Sketch, source: str, quote: int) -> None:
    inside, escape = f"string {quote:c}", f"string {quote:c} \\"
    sketch.edge(source, [quote], inside)
    sketch.edge(inside, [quote], "closed")
    plain = bytes(byte for byte in _PRINTABLE if byte not in (quote, ord("\\")))
    add_characters(sketch, inside, plain, breaks_lines=False)
    sketch.edge(inside, b"\\", escape)
    sketch.edge(escape, _SIMPLE_ESCAPES, inside)
    add_hex_escapes(sketch, escape, inside, {ord("x"): 2, ord("u"): 4})
    # Eight digits, at most 0010ffff.
    sketch.word(escape, b"U00", f"{inside} U00")
    sketch.edge(f"{inside} U00", b"0", f"{inside} U000")
    sketch.edge(f"{inside} U00", b"1", f"{inside} U001")
    sketch.edge(f"{inside} U000", HEX, f"{inside} hex4")
    sketch.edge(f"{inside} U001", b"0", f"{inside} hex4")


def _add_bytes(sketch: Sketch, source: str, quote: int) -> None:
    inside, escape = f"bytes {quote:c}", f"bytes {quote:c} \\"
    sketch.edge(source, [quote], inside)
    sketch.edge(inside, [quote], "closed")
    plain = bytes(byte for byte in _PRINTABLE if byte not in (quote, ord("\\")))
    sketch.edge(inside, plain, inside)
    sketch.edge(inside, b"\\", escape)
    sketch.edge(escape, _SIMPLE_ESCAPES, inside)
    add_hex_escapes(sketch, escape, inside, {ord("x"): 2})


def _add_brackets(sketch: Sketch) -> None:
    sketch.edge("value", b"[", "opened", pushed(LIST, _ANYTHING))
    sketch.edge("value", b"{", "opened", pushed(BRACE, _ANYTHING))
    sketch.edge("value", b"(", "opened", _PARENTHESIS)
    closings = {
        b"]": popped([LIST]),
        b")": popped(_PARENTHESES),
        b"}": popped([BRACE, SET, VALUE]),
    }
    for bracket, closing in closings.items():
        sketch.edge("closed", bracket, "closed", closing)
        sketch.edge("opened", bracket, "closed", closing)
    sketch.edge("closed", b",", "comma", _COMMA)
    sketch.edge("closed", b":", "colon", _COLON)
    for separator in ("comma", "colon"):
        sketch.edge(separator, b" ", "value")
    # Only a tuple may end in a comma: one of one item must.
    sketch.edge("comma", b")", "closed", popped([TUPLE, HASHABLE_TUPLE]))
    for before_value in ("opened", "comma", "colon"):
        sketch.also(before_value, "value")
