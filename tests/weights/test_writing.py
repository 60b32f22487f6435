"""Files of tensors, and folders that appear whole."""

import json
from collections.abc import Iterator
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file

from jaxgrpo.weights.writing import (
    INCOMPLETE,
    Tensor,
    bytes_of,
    check_is_empty,
    whole_folder,
    write_tensors,
)

SHAPES = {"a": (3, 4), "b": (5,), "c": (2, 3, 4), "d": (1, 40)}


def number(name: str) -> np.ndarray:
    rng = np.random.default_rng(ord(name))
    return rng.standard_normal(SHAPES[name], np.float32)


def tensors() -> list[Tensor]:
    """Each gives its numbers in two blocks."""

    def blocks(name: str) -> Iterator[np.ndarray]:
        flat = number(name).reshape(-1)
        yield flat[:3]
        yield flat[3:]

    return [
        Tensor(name, shape, lambda name=name: blocks(name))
        for name, shape in SHAPES.items()
    ]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_the_library_reads_what_is_written(tmp_path: Path, dtype: str):
    write_tensors(tmp_path, tensors(), dtype)
    stored = load_file(tmp_path / "model.safetensors")
    assert list(stored) == list(SHAPES)
    for name, value in stored.items():
        assert value.dtype == jnp.dtype(dtype)
        expected = number(name).astype(jnp.dtype(dtype))
        assert value.tobytes() == expected.tobytes() and value.shape == expected.shape
    with safe_open(tmp_path / "model.safetensors", framework="numpy") as handle:
        assert handle.metadata() == {"format": "pt"}


def test_shards_are_no_larger_than_allowed_except_for_one_large_tensor(tmp_path: Path):
    # In float32 the tensors have 48, 20, 96 and 160 bytes.
    write_tensors(tmp_path, tensors(), "float32", max_shard_bytes=120)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    files = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    assert index == {
        "metadata": {"total_size": 324},
        "weight_map": {"a": files[0], "b": files[0], "c": files[1], "d": files[2]},
    }
    for file in files:
        for name, value in load_file(tmp_path / file).items():
            assert index["weight_map"][name] == file
            np.testing.assert_array_equal(value, number(name))


def test_progress_is_told_after_each_tensor(tmp_path: Path):
    told = []
    write_tensors(
        tmp_path, tensors(), "float32", report=lambda *counts: told.append(counts)
    )
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


# Folders


def write_both(place: Path, text: str) -> None:
    (place / "config.json").write_text(text)
    (place / "model.safetensors").write_text(text)


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_files_appear_together(tmp_path: Path):
    folder = tmp_path / "new" / "checkpoint"
    with whole_folder(folder) as place:
        write_both(place, "one")
        assert [path.name for path in folder.iterdir()] == [INCOMPLETE]
    assert contents(folder) == {"config.json": "one", "model.safetensors": "one"}


def test_a_failed_attempt_leaves_what_was_there(tmp_path: Path):
    write_both(tmp_path, "one")
    with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path) as place:
        write_both(place, "two")
        raise KeyboardInterrupt
    assert contents(tmp_path) == {"config.json": "one", "model.safetensors": "one"}


def test_the_configuration_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A process that is killed between two files leaves no checkpoint behind."""
    write_both(tmp_path, "one")
    moved = []

    def replace(path: Path, target: Path) -> None:
        assert not (tmp_path / "config.json").exists()
        moved.append(target.name)

    monkeypatch.setattr(Path, "replace", replace)
    with whole_folder(tmp_path) as place:
        write_both(place, "two")
        (place / "tokenizer.json").write_text("two")
    assert moved == ["model.safetensors", "tokenizer.json", "config.json"]


def test_weights_of_an_earlier_checkpoint_go_and_other_files_stay(tmp_path: Path):
    names = [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "evaluation.json",
    ]
    for name in names:
        (tmp_path / name).write_text("old")
    with whole_folder(tmp_path) as place:
        write_both(place, "new")
    assert contents(tmp_path) == {
        "config.json": "new", "model.safetensors": "new", "evaluation.json": "old"
    }  # fmt: skip


def test_the_remains_of_a_killed_process_are_no_obstacle(tmp_path: Path):
    (tmp_path / INCOMPLETE).mkdir()
    (tmp_path / INCOMPLETE / "model.safetensors").write_text("half")
    check_is_empty(tmp_path)
    with whole_folder(tmp_path) as place:
        (place / "config.json").write_text("one")
    assert contents(tmp_path) == {"config.json": "one"}


def test_a_folder_that_holds_something_is_refused(tmp_path: Path):
    check_is_empty(tmp_path / "absent")
    check_is_empty(tmp_path)
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(ValueError, match="is not an empty folder. Name a new one"):
        check_is_empty(tmp_path)
    with pytest.raises(ValueError, match="is not an empty folder"):
        check_is_empty(tmp_path / "thesis.txt")


@pytest.mark.parametrize("size", ["5", "GB", "0GB", "5GiB", "-5GB", "5 TB"])
def test_what_is_no_size_is_refused(size: str):
    with pytest.raises(ValueError, match="is no size of a file. Write for example 5GB"):
        bytes_of(size)
