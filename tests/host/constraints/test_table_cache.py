from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from jaxgrpo.host.constraints import (
    Constraint,
    TokenTables,
    Vocabulary,
    compile_constraints,
    parse_constraint,
)
from jaxgrpo.host.constraints import compilation as compilation_module

JSON = parse_constraint("json")


@pytest.fixture
def vocabulary(make_vocabulary: Callable[..., Vocabulary]) -> Vocabulary:
    return make_vocabulary(b"[[")


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one each time that tables are really built."""
    real = compilation_module.token_tables
    counted: list[int] = []

    def token_tables(*arguments):
        counted.append(len(counted))
        return real(*arguments)

    monkeypatch.setattr(compilation_module, "token_tables", token_tables)
    return counted


def compiled(
    vocabulary: Vocabulary,
    folder: Path,
    *constraints: Constraint,
    num_logits: int = 300,
) -> TokenTables:
    return compile_constraints(
        constraints, vocabulary, num_logits=num_logits, cache_folder=folder
    )


def assert_equal(one: TokenTables, other: TokenTables) -> None:
    for name, array in one._asdict().items():
        np.testing.assert_array_equal(array, getattr(other, name), err_msg=name)
        assert array.dtype == getattr(other, name).dtype, name


def test_stored_tables_are_those_that_were_built(
    vocabulary: Vocabulary, tmp_path: Path, builds: list[int]
):
    built = compiled(vocabulary, tmp_path / "new" / "folder", JSON)
    assert_equal(compiled(vocabulary, tmp_path / "new" / "folder", JSON), built)
    assert len(builds) == 1


def test_whatever_changes_the_tables_has_a_file_of_its_own(
    make_vocabulary: Callable[..., Vocabulary], tmp_path: Path, builds: list[int]
):
    vocabulary = make_vocabulary(b"[[")
    calls = [
        (vocabulary, (JSON,), 300),
        (vocabulary, (JSON,), 301),
        (vocabulary, (JSON, JSON), 300),
        (vocabulary, (parse_constraint("json", after="x"),), 300),
        (vocabulary, (parse_constraint("json", until="x"),), 300),
        (vocabulary, (parse_constraint("choice:a"),), 300),
        (make_vocabulary(b"]]"), (JSON,), 300),
        (make_vocabulary(b"[", b"["), (JSON,), 300),
        (vocabulary._replace(eos_ids=(257, 256)), (JSON,), 300),
        (make_vocabulary(b"[[", special=("<x>",)), (JSON,), 300),
        (make_vocabulary(b"[[", special=("<y>",)), (JSON,), 300),
    ]
    for vocabulary, constraints, num_logits in calls:
        compiled(vocabulary, tmp_path, *constraints, num_logits=num_logits)
    assert len(builds) == len(calls) == len([*tmp_path.iterdir()])


@pytest.mark.parametrize("damage", ["cut", "empty", "other", "flipped"])
def test_a_damaged_file_is_replaced(
    vocabulary: Vocabulary, tmp_path: Path, builds: list[int], damage: str
):
    built = compiled(vocabulary, tmp_path, JSON)
    (path,) = tmp_path.iterdir()
    good = path.read_bytes()
    middle = len(good) // 2
    path.write_bytes(
        {
            "cut": good[:middle],
            "empty": b"",
            "other": b"\x80\x04N.",  # a pickle
            "flipped": good[:middle] + bytes([good[middle] ^ 1]) + good[middle + 1 :],
        }[damage]
    )
    assert_equal(compiled(vocabulary, tmp_path, JSON), built)
    assert len(builds) == 2
    assert_equal(compiled(vocabulary, tmp_path, JSON), built)
    assert len(builds) == 2


def test_a_failed_write_leaves_nothing(
    vocabulary: Vocabulary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def savez(file, **arrays):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", savez)
    with pytest.raises(OSError, match="disk full"):
        compiled(vocabulary, tmp_path, JSON)
    assert not [*tmp_path.iterdir()]
