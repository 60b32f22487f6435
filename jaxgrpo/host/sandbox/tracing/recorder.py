"""Writes down what each statement did, from events that every Python version has.

A boundary is written when its statement is done: then its effect is known, and what
it called stands before it. Which events there are is up to `hooks.py`.
"""

from collections.abc import Callable
from types import CodeType, FrameType

from .canonical import ATOMS, canonical
from .region import Region
from .statements import FIRST_NUMBER, Numbered, Statement, inside

RETURNED, YIELDED, RAISED, PRINTED, UNSEEN, DELETED = (
    "<return>",
    "<yield>",
    "<raise>",
    "<stdout>",
    "<unseen>",
    "<deleted>",
)
"""Names of effects beside those on variables, and the text of one that is gone."""
SILENT_EXCEPTIONS = (StopIteration, StopAsyncIteration, GeneratorExit)
"""How loops and generators end: part of what they do."""
ONE_ENTRY_KINDS = ("with", "match", "except", "definition")
"""Statements to which control comes back at their end: not another execution."""
NO_TARGETS: frozenset[str] = frozenset()
UNTOLD = ("break", "continue", "pass")
"""Kinds of statements that cannot change a variable."""


class Code:
    """What is known of a code object of the program beforehand.

    Args:
      code: Compiled from the numbered tree.
      numbered: That tree.
    """

    def __init__(self, code: CodeType, numbered: Numbered) -> None:
        self.code = code
        self.definition = code.co_firstlineno if code.co_name != "<module>" else 0
        owner = numbered.statements.get(self.definition)
        self.scope = inside(owner.scope, code.co_name) if owner else "<module>"
        is_class = owner is not None and owner.shape.startswith("ClassDef")
        self.is_function = owner is not None and not is_class
        num_stars = bool(code.co_flags & 4) + bool(code.co_flags & 8)
        num_parameters = code.co_argcount + code.co_kwonlyargcount + num_stars
        self.parameters = code.co_varnames[:num_parameters]
        self.globals = owner.globals if owner is not None and not is_class else ()
        self.entries: dict[int, int] = {}
        """Offsets at which a statement begins, with its number."""
        seen: set[int] = set()
        last = -1
        for start, _, line in code.co_lines():
            if line is None or line == last:
                continue
            last = line
            found = numbered.statements.get(line)
            if found is None or line == self.definition:
                continue
            if found.kind in ONE_ENTRY_KINDS and line in seen:
                continue
            seen.add(line)
            self.entries[start] = line


def codes_of(program: CodeType, numbered: Numbered) -> dict[int, Code]:
    """The program's code objects by identity, without those of comprehensions.

    A comprehension is a part of its statement: some versions of Python make a function
    of it, others do not.
    """
    found: dict[int, Code] = {}
    pending = [program]
    while pending:
        code = pending.pop()
        pending += [part for part in code.co_consts if isinstance(part, CodeType)]
        if not code.co_name.startswith("<") or code.co_name in ("<module>", "<lambda>"):
            found[id(code)] = Code(code, numbered)
    return found


class Activation:
    """One execution of a function (or of the module, or of a class's body)."""

    __slots__ = (
        "code",
        "effects",
        "has_yielded",
        "is_raising",
        "last_line",
        "number",
        "objects",
        "pending",
        "returning",
        "texts",
    )

    def __init__(self, code: Code, number: int) -> None:
        self.code = code
        self.number = number
        self.pending = 0
        """The statement that runs; 0 for none."""
        self.last_line = 0
        self.returning = 0
        """A `return` whose value is known, while cleaning up goes on."""
        self.is_raising = False
        self.has_yielded = False
        """Whether the pending statement has handed out a value and been written."""
        self.effects: list[tuple[str, str]] = []
        """Of the pending statement, beside those on variables."""
        self.texts: dict[str, str] = {}
        """Canonical values of the variables after the last boundary."""
        self.objects: dict[str, object] = {}
        """The values themselves, where they cannot change."""


class Recorder:
    """Turns events into boundaries.

    Args:
      numbered: The program's statements.
      region: Where boundaries are written.
      max_events: Largest number of them.
      printed: Gives what was printed since it was asked last, and what was left out
        of that.
    """

    def __init__(
        self,
        numbered: Numbered,
        region: Region,
        max_events: int,
        printed: Callable[[], tuple[str, str]],
    ) -> None:
        self._statements = numbered.statements
        self._region = region
        self._max_events = self._num_left = max_events
        self._num_activations = 0
        self._printed = printed
        self._stack: list[Activation] = []
        self._suspended: dict[int, Activation] = {}
        self.stop: Callable[[], None] = lambda: None
        """Called when there will be no more boundaries."""

    @property
    def is_done(self) -> bool:
        """Whether all that was entered has been left."""
        return not self._stack

    def begin(self) -> None:
        """Another trace begins."""
        self._num_left = self._max_events
        self._num_activations = 0
        self._stack.clear()
        self._suspended.clear()

    def enter(self, frame: FrameType, code: Code) -> None:
        """A function begins; its arguments are there."""
        caller = self._stack[-1] if self._stack else None
        activation = self._new_activation(code)
        self._stack.append(activation)
        if code.is_function:
            responsible = caller.pending if caller else 0
            names = code.parameters
            present = frame.f_locals
            values = [
                (name, text_of(present[name])) for name in names if name in present
            ]
            activation.texts.update(values)
            self._write(
                responsible or code.definition, activation, None, values, "call"
            )

    def line(self, frame: FrameType, line: int, offset: int) -> None:
        """Control comes to a line."""
        if not self._stack:
            return
        activation = self._stack[-1]
        code = activation.code
        number = code.entries.get(offset, 0)
        found = self._statements.get(line)
        if found is None or line == code.definition:
            return
        if found.kind == "loop":
            # Between two rounds there is always something else.
            number = line if line != activation.last_line else 0
        activation.last_line = line
        if not number and line == activation.pending:
            return  # Still at it: a comprehension goes round.
        self._complete(activation, frame, line)
        if number and found.kind:
            activation.pending = number

    def raising(self, frame: FrameType, exception: object) -> None:
        """An exception is in the air in a function."""
        if not self._stack or isinstance(exception, SILENT_EXCEPTIONS):
            return
        activation = self._stack[-1]
        if not activation.is_raising:
            activation.is_raising = True
            activation.effects.append((RAISED, type(exception).__name__))

    def leave(self, frame: FrameType, value: object, *, has_value: bool) -> None:
        """A function ends, by a value or by an exception.

        A generator that is closed before its end is not heard of any more.
        """
        if not self._stack:
            return
        activation = self._stack[-1]
        if activation.has_yielded and not (has_value or activation.is_raising):
            activation.pending = 0
        if has_value and activation.code.is_function:
            self._note_return(activation, frame, (RETURNED, text_of(value)))
        else:
            self._complete(activation, frame, 0)
        self._stack.pop()

    def suspend(self, frame: FrameType, value: object) -> None:
        """A generator hands out a value."""
        if not self._stack:
            return
        activation = self._stack.pop()
        if activation.pending:
            effect = (YIELDED, text_of(value))
            self._write(activation.pending, activation, None, [effect], "yield")
            activation.has_yielded = True
        self._suspended[id(frame)] = activation

    def resume(self, frame: FrameType, code: Code) -> None:
        """A generator goes on."""
        activation = self._suspended.pop(id(frame), None)
        if activation is None or activation.code is not code:
            activation = self._new_activation(code)
        activation.is_raising = False
        self._stack.append(activation)

    def _new_activation(self, code: Code) -> Activation:
        number = self._num_activations
        self._num_activations += 1
        if self._num_left and not self._region.write((number, code.scope)):
            self.stop()
        return Activation(code, number)

    def _note_return(
        self, activation: Activation, frame: FrameType, effect: tuple[str, str]
    ) -> None:
        pending = self._statements.get(activation.pending)
        if activation.returning and (pending is None or pending.kind != "return"):
            self._complete(activation, frame, 0)
            self._write(activation.returning, activation, None, [effect])
        elif pending is not None:
            activation.effects.append(effect)
            self._complete(activation, frame, 0, is_return=True)
        elif activation.last_line >= FIRST_NUMBER:
            # Nothing is left to do: the value is that of no statement, None.
            self._write(activation.last_line, activation, None, [effect])

    def _complete(
        self,
        activation: Activation,
        frame: FrameType,
        following: int,
        *,
        is_return: bool = False,
    ) -> None:
        """Writes the boundary of the statement that was running."""
        number, activation.pending = activation.pending, 0
        if not number:
            return
        found = self._statements[number]
        if found.kind == "return" and not (is_return or activation.is_raising):
            activation.returning = number
            return
        branch = outcome(found, following, is_raising=activation.is_raising)
        # A loop that is through sets nothing, nor does what ends in an exception.
        is_set = not activation.is_raising and branch is not False
        values = []
        if found.kind not in UNTOLD:
            targets = found.targets if is_set else NO_TARGETS
            values = self._changes(activation, frame, targets)
        values += activation.effects
        printed, unseen = self._printed()
        if printed:
            values.append((PRINTED, printed))
        if unseen:
            values.append((UNSEEN, unseen))
        is_written = activation.has_yielded and not values
        activation.effects = []
        activation.is_raising = activation.has_yielded = False
        if not is_written:
            self._write(number, activation, branch, values)

    def _changes(
        self, activation: Activation, frame: FrameType, targets: frozenset[str]
    ) -> list[tuple[str, str]]:
        """Variables that have been set, or hold another value than before.

        Args:
          activation: Of the function.
          frame: Its frame.
          targets: Variables that are told in any case, if they exist.
        """
        texts, objects = activation.texts, activation.objects
        variables = frame.f_locals
        changed: list[tuple[str, str]] = []
        num_seen = 0
        for name, value in [*variables.items()]:
            if name.startswith(("__", ".")):
                continue
            num_seen += 1
            is_target = name in targets
            if name in objects and objects[name] is value and not is_target:
                continue
            self._note(changed, activation, name, value, is_target)
        for name in activation.code.globals:
            if name in frame.f_globals:
                num_seen += 1
                value = frame.f_globals[name]
                self._note(changed, activation, name, value, name in targets)
        if num_seen < len(texts):
            present = {*variables, *activation.code.globals}
            for name in [name for name in texts if name not in present]:
                del texts[name]
                objects.pop(name, None)
                changed.append((name, DELETED))
        # In which order a frame tells its variables depends on the version of Python.
        return sorted(changed)

    @staticmethod
    def _note(
        changed: list[tuple[str, str]],
        activation: Activation,
        name: str,
        value: object,
        is_target: bool,
    ) -> None:
        if type(value) in ATOMS:
            activation.objects[name] = value
        else:
            activation.objects.pop(name, None)
        text = text_of(value)
        if is_target or activation.texts.get(name) != text:
            activation.texts[name] = text
            changed.append((name, text))

    def _write(
        self,
        number: int,
        activation: Activation,
        branch: bool | None,
        values: list[tuple[str, str]],
        kind: str = "",
    ) -> None:
        if not self._num_left:
            self._region.write("cut")
            self.stop()
            return
        self._num_left -= 1
        line = (number, kind, activation.number, branch, values)
        if not self._region.write(line):
            self.stop()


def outcome(statement: Statement, following: int, *, is_raising: bool) -> bool | None:
    """Whether a statement's test held; None where it has none or was not decided.

    Args:
      statement: That was running.
      following: Number of the statement to which control came; 0 for none.
      is_raising: Whether it ended in an exception.
    """
    if statement.kind == "assert":
        return not is_raising
    if statement.kind not in ("branch", "loop") or is_raising:
        return None
    return following in statement.body


def text_of(value: object) -> str:
    """The canonical text of a value; of what defies even that, a mark."""
    try:
        return canonical(value)
    except Exception:
        return "<unknown>"
