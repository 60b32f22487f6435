from dataclasses import replace
from pathlib import Path

import pytest

from jaxgrpo.problems.store.sources import (
    SourceFile,
    files_folder,
    find_sources,
    sources_digest,
)

from .conftest import ECHOES


def made(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{name}\n")
    return folder


def found(path: Path | str, data_set=ECHOES, cache: Path = Path("/nowhere")):
    sources = find_sources(data_set, str(path), cache)
    return [(source.split, source.path.name) for source in sources]


def test_files_are_found_by_their_names(tmp_path):
    made(tmp_path, "train.jsonl", "test.jsonl", "README.md", "other/train.jsonl")
    assert found(tmp_path) == [("train", "train.jsonl"), ("test", "test.jsonl")]


def test_a_name_may_begin_with_a_folder(tmp_path):
    made(tmp_path, "data/train-0.jsonl", "train-1.jsonl", "data/more/train-2.jsonl")
    below = replace(ECHOES, files={"train": ("data/train-*.jsonl",)})
    assert found(tmp_path, below) == [("train", "train-0.jsonl")]
    assert found(tmp_path / "train-1.jsonl", below) == [("train", "train-1.jsonl")]


def test_the_first_name_counts_with_all_its_files(tmp_path):
    made(tmp_path, "train-1.jsonl", "train-0.jsonl")
    assert found(tmp_path) == [("train", "train-0.jsonl"), ("train", "train-1.jsonl")]
    made(tmp_path, "train.jsonl")
    assert found(tmp_path) == [("train", "train.jsonl")]


def test_a_file_of_all_splits_only_counts_alone(tmp_path):
    made(tmp_path, "echoes.jsonl")
    assert found(tmp_path) == [("", "echoes.jsonl")]
    made(tmp_path, "test.jsonl")
    assert found(tmp_path) == [("test", "test.jsonl")]


def test_a_path_may_be_a_file_of_any_name(tmp_path):
    made(tmp_path, "mine.jsonl", "test.jsonl")
    assert found(tmp_path / "test.jsonl") == [("test", "test.jsonl")]
    assert found(tmp_path / "mine.jsonl") == [("", "mine.jsonl")]
    only_test = replace(ECHOES, files={"test": ("test.jsonl",)})
    assert found(tmp_path / "mine.jsonl", only_test) == [("test", "mine.jsonl")]
    two = replace(ECHOES, files={"train": ("train.jsonl",), "test": ("test.jsonl",)})
    with pytest.raises(ValueError, match="its name does not tell its split"):
        found(tmp_path / "mine.jsonl", two)


def test_without_a_path_the_folder_for_files_is_looked_in(tmp_path):
    made(files_folder(ECHOES, tmp_path), "echoes.jsonl")
    assert found("", cache=tmp_path) == [("", "echoes.jsonl")]


def test_without_a_path_an_installed_package_is_looked_in(tmp_path):
    carried = replace(ECHOES, package="rich", files={"": ("box.py",)})
    assert found("", carried, tmp_path) == [("", "box.py")]


@pytest.mark.parametrize("package", ["", "no-such-package-at-all"])
def test_what_is_missing_is_told_with_where_to_get_it(tmp_path, package):
    data_set = replace(ECHOES, package=package)
    with pytest.raises(ValueError) as caught:
        found("", data_set, tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert "none of train.jsonl, train-*.jsonl, test.jsonl, echoes.jsonl is" in message
    assert str(tmp_path / "files" / "echoes") in message
    assert "Get it: https://example.org/echoes, file echoes.jsonl" in message
    assert ("pip install no-such-package-at-all" in message) == bool(package)


def test_a_wrong_path_is_told(tmp_path):
    with pytest.raises(ValueError, match="there is no such file or folder. Get it: "):
        found(tmp_path / "nothing")


def test_the_digest_is_of_contents_and_splits(tmp_path):
    made(tmp_path, "a.jsonl")
    one = [SourceFile(path=tmp_path / "a.jsonl", split="")]
    digest, num_lines = sources_digest(one)
    assert num_lines == 1 and len(digest) == 16
    (tmp_path / "a.jsonl").rename(tmp_path / "b.jsonl")
    moved = [SourceFile(path=tmp_path / "b.jsonl", split="")]
    assert sources_digest(moved) == (digest, 1)
    other_split = [SourceFile(path=tmp_path / "b.jsonl", split="test")]
    assert sources_digest(other_split)[0] != digest
    (tmp_path / "b.jsonl").write_text("a.jsonl\nmore")
    assert sources_digest(moved)[0] != digest and sources_digest(moved)[1] == 2
