import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxgrpo.problems.generation import assemble, split_of_text, write_chunks

# An example here is a text and a number; texts decide the split.
Example = tuple[str, int]


def ignore(done: int, wanted: int) -> None:
    pass


def assembled(chunks, sizes, report=ignore) -> dict[str, list[Example]]:
    return assemble(
        chunks,
        sizes,
        split_of=lambda example: split_of_text(example[0]),
        key_of=lambda example: example,
        report=report,
    )


@given(st.lists(st.integers(0, 60)))
def test_nothing_repeats_and_every_example_is_in_its_own_split(numbers):
    chunks = [[(f"text {n % 30}", n)] for n in numbers]
    enough = [[(f"text {n}", n)] for n in range(100, 400)]
    sizes = {"train": 40, "validation": 1, "test": 3}
    splits = assembled([*chunks, *enough], sizes)
    keys = [example for examples in splits.values() for example in examples]
    assert len(set(keys)) == len(keys) == 44
    for name, examples in splits.items():
        assert all(split_of_text(text) == name for text, _ in examples)


def test_progress_is_reported_up_to_the_end():
    texts = [f"text {n}" for n in range(30)]
    chunk = [(text, 0) for text in texts if split_of_text(text) == "train"][:10]
    seen = []
    sizes = {"train": 10, "validation": 0, "test": 0}
    assembled([chunk[:4], chunk[4:]], sizes, lambda *numbers: seen.append(numbers))
    assert seen == [(4, 10), (10, 10)]


def test_too_few_chunks_are_an_error():
    with pytest.raises(RuntimeError, match="ended with 0 of 2 examples"):
        assembled([[]], {"train": 2})


def test_chunks_are_lines_of_json_until_nobody_reads_them():
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            if len(self.getvalue()) > 20:
                raise BrokenPipeError
            return super().write(text)

    out = Full()
    endless = ([["row", n]] for n in iter(int, 1))
    write_chunks(endless, out)
    lines = out.getvalue().splitlines()
    assert [json.loads(line) for line in lines[:2]] == [[["row", 0]]] * 2
