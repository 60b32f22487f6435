import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from jaxgrpo.host.records import Limits, Problem, StoredTests, Test
from jaxgrpo.host.stored_tests import tests_of as read_tests
from jaxgrpo.problems.formats.format import MalformedRowError
from jaxgrpo.problems.store.builder import kept_counts
from jaxgrpo.problems.store.reading import stored_problems

from .conftest import ECHOES, row, write_rows


def split(builder, name="train", limit=0, include_inexpressible=False):
    found = stored_problems(
        builder, name, limit=limit, include_inexpressible=include_inexpressible
    )
    assert found is not None
    return found


def test_problems_come_back_whole(store):
    given = row(
        "a",
        3,
        prompt="Schreib ä\r\n",
        reference="print(input())",
        limits=None,
        tags={"difficulty": "easy"},
        hints=("look", "look harder"),
        hint_tiers=("knowledge", "planning"),
        columns={"rating": 800, "sets": [1, None, 2.5], "text": "half \ud800"},
    )
    (problem,) = split(store([given]))
    tests = tuple(
        Test(kind="stdin", stdin=text, expected=text) for text in ("a-0", "a-1", "a-2")
    )
    assert read_tests(problem) == tests
    expected = Problem(**{**given, "kind": "stdin", "tests": tests})
    assert replace(problem, tests=tests) == expected


def test_limits_come_back(store):
    limited = replace(
        ECHOES,
        problem=lambda row, where: replace(
            ECHOES.problem(row, where), limits=Limits(cpu_s=0.5)
        ),
    )
    write_rows(store.folder / "echoes.jsonl", [row("a")])
    (store.folder / "files").mkdir()
    shutil.move(store.folder / "echoes.jsonl", store.folder / "files")
    (problem,) = split(store.of_folder(limited))
    assert problem.limits == Limits(cpu_s=0.5)


def test_tests_stay_on_disk_and_a_problem_is_small(store):
    big = "x" * 10**6
    (problem,) = split(store([row("a", columns={}) | {"tests": [[big, big]] * 5}]))
    assert isinstance(problem.tests, StoredTests) and len(problem.tests) == 5
    assert len(pickle.dumps(problem)) < 1000
    assert [test.stdin for test in read_tests(problem)] == [big] * 5


def test_a_store_can_be_moved(store, tmp_path):
    builder = store([row("a")])
    (tmp_path / "moved").mkdir()
    shutil.move(tmp_path / "cache", tmp_path / "moved")
    shutil.move(tmp_path / "moved" / "cache", tmp_path / "cache2")
    assert not Path(builder.data_dir).exists()
    shutil.move(tmp_path / "cache2", tmp_path / "cache")
    (problem,) = split(store.of_folder())
    assert len(read_tests(problem)) == 1


def test_the_order_is_no_order_of_the_file_and_stays(store):
    rows = [row(f"p{i:03}") for i in range(50)]
    first = [problem.id for problem in split(store(rows))]
    again = [problem.id for problem in split(store(rows[::-1]))]
    assert sorted(first) == [row["id"] for row in rows]
    assert first == again != sorted(first)


def test_random_access_and_limits(store):
    builder = store([row(f"p{i}") for i in range(9)])
    problems = split(builder)
    everything = list(problems)
    assert problems[-1] == everything[-1] and problems[2:4] == everything[2:4]
    assert list(split(builder, limit=4)) == everything[:4]
    assert len(split(builder, limit=100)) == 9
    with pytest.raises(IndexError):
        split(builder, limit=4)[4]
    assert stored_problems(builder, "test", limit=0, include_inexpressible=True) is None


# Splits


def test_published_splits_stand_and_a_missing_one_is_dealt_out(store):
    store([row(f"a{i}") for i in range(60)], name="train.jsonl")
    builder = store(
        [row(f"b{i}") for i in range(5)],
        name="test.jsonl",
        validation_fraction=0.2,
        test_fraction=0.9,
    )
    ids = {name: {p.id for p in split(builder, name)} for name in
           ("train", "validation", "test")}  # fmt: skip
    assert ids["test"] == {f"b{i}" for i in range(5)}
    assert ids["train"] | ids["validation"] == {f"a{i}" for i in range(60)}
    assert 5 <= len(ids["validation"]) <= 20


def test_hashed_splits_mix_all_files(store):
    store([row(f"a{i}") for i in range(60)], name="train.jsonl")
    builder = store(
        [row(f"b{i}") for i in range(60)],
        name="test.jsonl",
        splits="hashed",
        test_fraction=0.5,
    )
    assert {problem.id[0] for problem in split(builder, "test")} == {"a", "b"}
    assert 40 <= len(split(builder, "test")) <= 80


def test_one_file_may_hold_published_splits_and_rows_of_none(store):
    def published(row):
        return {"a": "train", "b": "test", "c": "prompt"}[row["id"][0]]

    data_set = replace(ECHOES, split_of=published)
    (store.folder / "files").mkdir()
    rows = [row(name) for name in ("a1", "a2", "b1", "c1")]
    write_rows(store.folder / "files" / "echoes.jsonl", rows)
    builder = store.of_folder(data_set, test_fraction=0.9)
    assert {p.id for p in split(builder)} == {"a1", "a2"}
    assert {p.id for p in split(builder, "test")} == {"b1"}
    assert kept_counts(builder).other_splits == {"prompt": 1}


# Caps


def test_tests_beyond_the_caps_are_left_out_and_counted(store):
    big = "x" * 5 * 2**20
    rows = [
        row("many", 10),
        {"id": "big", "tests": [["1", "1"], [big, big], ["2", "2"]]},
        row("few", 2),
    ]
    builder = store(rows, max_tests=4, max_test_bytes=2**20)
    problems = {problem.id: problem for problem in split(builder)}
    many = [test.stdin for test in read_tests(problems["many"])]
    assert many == ["many-0", "many-3", "many-6", "many-9"]
    assert [test.stdin for test in read_tests(problems["big"])] == ["1", "2"]
    counts = kept_counts(builder)
    assert (counts.num_tests, counts.num_capped, counts.num_left_out_tests) == (8, 2, 7)


def test_a_problem_that_loses_all_tests_is_malformed(store):
    with pytest.raises(MalformedRowError, match="the smallest has 5243.. bytes, more"):
        big = "x" * 2**18
        store([{"id": "a", "tests": [[big, big]]}], max_test_bytes=1000)


# Malformed rows


HALF = {"id": "a\udc00", "tests": [["1", "1"]]}
BAD_ROWS = [
    ([{"id": "a"}], "echoes.jsonl: row 1: tests: is missing"),
    ([row("a"), row("b"), row("a")], "row 3: id: 'a' is that of .*row 1 too"),
    ([row("")], "row 1: id: is empty"),
    ([{"id": "a", "tests": []}], "row 1: tests: no tests"),
    ([HALF], r"row 1: id: character 1 is '\\udc00', half of a surrogate pair"),
    ([row("a", prompt="\ud83d")], "row 1: prompt: character 0 is"),
    ([row("a", kind="assert") | {"tests": ["assert ("]}], "row 1: tests: test 0"),
]


@pytest.mark.parametrize(("rows", "message"), BAD_ROWS)
def test_a_malformed_row_stops_with_file_row_and_field(store, rows, message):
    with pytest.raises(MalformedRowError, match=message) as caught:
        store(rows)
    assert "Or set data.malformed to 'skip'" in str(caught.value)


def test_malformed_rows_are_skipped_and_counted_if_so_configured(store):
    rows = [bad for bads, _ in BAD_ROWS for bad in bads]
    builder = store([*rows, row("good", 2)], malformed="skip")
    counts = kept_counts(builder)
    assert counts.num_rows == len(rows) + 1
    assert {problem.id for problem in split(builder)} == {"a", "b", "good"}
    assert counts.num_problems + counts.num_skipped == counts.num_rows
    assert counts.num_skipped == len(counts.skipped) == 7
    assert "row 1: tests: is missing" in counts.skipped[0]


def test_lines_that_are_no_rows_are_skipped_too(store):
    files = store.folder / "files"
    files.mkdir()
    lines = [b"\xef\xbb\xbf" + json.dumps(row("a")).encode(), b"{", b"\xff", b""]
    lines.append(json.dumps(row("b")).encode())
    (files / "echoes.jsonl").write_bytes(b"\r\n".join(lines))
    builder = store.of_folder(malformed="skip")
    assert {problem.id for problem in split(builder)} == {"a", "b"}
    assert kept_counts(builder).num_skipped == 2


def test_a_set_without_a_single_problem_is_refused(store):
    with pytest.raises(ValueError, match=r"none of 1 rows is a problem \(1 skipped"):
        store([{"id": "a"}], malformed="skip")


def test_a_refused_build_leaves_nothing_to_read(store):
    with pytest.raises(MalformedRowError):
        store([row("a"), {"id": "b"}])
    assert split(store([row("a"), row("b")]))[0].id in {"a", "b"}
    assert not list((store.folder / "cache").rglob("incomplete.*"))


def test_a_value_that_is_no_data_is_refused_by_its_column(store):
    odd = replace(
        ECHOES,
        problem=lambda row, where: replace(
            ECHOES.problem(row, where), columns={"when": object()}
        ),
    )
    (store.folder / "files").mkdir()
    write_rows(store.folder / "files" / "echoes.jsonl", [row("a")])
    with pytest.raises(MalformedRowError, match="row 1: when: a value of type object"):
        store.of_folder(odd)


# Tests that the judge cannot express


UNSAFE = {
    "id": "unsafe",
    "kind": "assert",
    "reference": "class A: pass\ndef f(): return A()",
    "tests": ["assert isinstance(f(), A)"],
}
SAFE = {
    "id": "safe",
    "kind": "assert",
    "reference": "def f(): return 1",
    "tests": ["assert f() == 1"],
}


def test_problems_with_inexpressible_tests_are_kept_apart(store):
    builder = store([UNSAFE, SAFE])
    assert [problem.id for problem in split(builder)] == ["safe"]
    both = list(split(builder, include_inexpressible=True))
    assert [problem.id for problem in both] == ["safe", "unsafe"]
    (test,) = read_tests(both[1])
    assert test.is_inside and "A is a class" in str(both[1].columns["inexpressible"])
    counts = kept_counts(builder)
    assert counts.sizes == {"train": 1, "train_inexpressible": 1}
    assert counts.inexpressible[0].startswith("unsafe: A is a class")


# The name


def test_what_changes_the_records_changes_the_folder(store):
    rows = [row("a", 3)]
    folders = [
        Path(builder.data_dir).parent.name
        for builder in (
            store(rows),
            store(rows, max_tests=2),
            store(rows, splits="hashed"),
            store(rows, malformed="skip"),
            store(rows, validation_fraction=0.01),
            store([row("b", 3)]),
        )
    ]
    assert len(set(folders)) == len(folders)
    assert Path(store(rows).data_dir).parent.name == folders[0]


def test_a_second_preparation_reads_nothing(store):
    rows = [row("a")]
    calls = []
    store(rows, report=lambda done, total: calls.append((done, total)))
    assert calls == [(0, 1), (1, 1)]
    calls.clear()
    store(rows, report=lambda done, total: calls.append((done, total)))
    assert not calls
