"""The grammar `json`: what `json.dumps` writes and `json.loads` reads.

One value of RFC 8259 on one line. Whitespace is narrower: a blank may follow a comma or
a colon, and stand before the whole; none elsewhere. NaN and Infinity, which Python's
module writes and reads, are no JSON. Names within an object may repeat. Digits are not
counted: Python refuses integers of more than 4,300 (`sys.set_int_max_str_digits`).
"""

from jaxgrpo.host.constraints.byte_automaton import ByteAutomaton, Sketch
from jaxgrpo.host.constraints.lexemes import (
    add_characters,
    add_hex_escapes,
    add_number,
)
from jaxgrpo.host.constraints.stack_moves import (
    BOTTOM,
    KEEP,
    kept,
    move,
    popped,
    pushed,
)

ARRAY, NAME, MEMBER = 10, 11, 12
"""NAME and MEMBER are the two sides of an object's colon."""

_ANYTHING = (BOTTOM, ARRAY, MEMBER)
"""Within these, a value may be of any kind; where a name is due, only a string."""


def json_value() -> ByteAutomaton:
    """Returns the automaton of one JSON value on one line."""
    sketch = Sketch()
    number_ends = _add_values(sketch)
    sketch.edge("closed", b",", "separator", move({ARRAY: (ARRAY,), MEMBER: (NAME,)}))
    sketch.edge("closed", b":", "separator", move({NAME: (MEMBER,)}))
    sketch.edge("closed", b"]", "closed", popped([ARRAY]))
    sketch.edge("closed", b"}", "closed", popped([MEMBER]))
    sketch.edge("array", b"]", "closed", popped([ARRAY]))
    sketch.edge("object", b"}", "closed", popped([NAME]))
    for before_value in ("start", "separator"):
        sketch.edge(before_value, b" ", "value")
    for before_value in ("start", "separator", "array", "object"):
        sketch.also(before_value, "value")
    for end in number_ends:
        sketch.also(end, "closed")
    for end in ("closed", *number_ends):
        sketch.accept(end)
    return sketch.automaton(start="start", closed="closed")


def _add_values(sketch: Sketch) -> tuple[str, ...]:
    """Adds values and strings; returns the states in which a number may end."""
    anything = kept(_ANYTHING)
    for word in (b"null", b"true", b"false"):
        sketch.word("value", word, "closed", anything)
    sketch.edge("value", b"-", "minus", anything)
    ends = add_number(sketch, "number", {"value": anything, "minus": KEEP}, b"eE")
    sketch.edge("value", b"[", "array", pushed(ARRAY, _ANYTHING))
    sketch.edge("value", b"{", "object", pushed(NAME, _ANYTHING))
    _add_string(sketch)
    return ends


def _add_string(sketch: Sketch) -> None:
    sketch.edge("value", b'"', "string")
    sketch.edge("string", b'"', "closed")
    plain = bytes(byte for byte in range(0x20, 0x80) if byte not in b'"\\')
    add_characters(sketch, "string", plain, breaks_lines=True)
    sketch.edge("string", b"\\", "escape")
    sketch.edge("escape", b'"\\/bfnrt', "string")
    add_hex_escapes(sketch, "escape", "string", {ord("u"): 4})
