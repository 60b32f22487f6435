import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jaxgrpo.cli import app
from jaxgrpo.host.json_rows import (
    CompletionRow,
    completion_of,
    row_of_rewards,
    row_of_verdict,
)
from jaxgrpo.host.records import Problem, Score, TestResult, Verdict
from jaxgrpo.score import Judged, summary_lines, write_parquet
from jaxgrpo.score_rewards import chosen

REPOSITORY = Path(__file__).parents[1]
PROBLEMS = [
    {
        "id": "double",
        "kind": "call",
        "tags": {"level": "1"},
        "tests": [
            {"function": "double", "arguments": [2], "expected": 4},
            {"function": "double", "arguments": ["a"], "expected": "aa"},
        ],
    },
    {
        "id": "echo",
        "kind": "stdin",
        "tags": {"level": "2"},
        "tests": [{"stdin": "hi\n", "expected": "hi"}],
    },
    {
        "id": "sort",
        "kind": "assert",
        "tests": [{"source": "assert f([2, 1]) == [1, 2]"}],
    },
    {"id": "three", "kind": "output", "reference": "3"},
    {"id": "object", "kind": "assert", "tests": [{"source": "assert Foo().x == 1"}]},
]
COMPLETIONS = [
    {"problem_id": "double", "text": "```python\ndef double(x): return 2 * x\n```"},
    {"problem_id": "double", "text": "```\ndef double(x): return 4\n```", "model": "m"},
    {"problem_id": "double", "text": "I do not know."},
    {"problem_id": "echo", "completion": "```\nprint(input())\n```"},
    {"problem_id": "sort", "completion": "```\ndef f(x):\n    return 1 / 0\n```"},
    {"problem_id": "three", "completion": "3"},
    {"problem_id": "object", "completion": "```\nclass Foo: x = 1\n```"},
]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    paths = []
    for name, rows in (("problems", PROBLEMS), ("completions", COMPLETIONS)):
        path = tmp_path / f"{name}.jsonl"
        text = "".join(json.dumps(row) + "\n" for row in rows)
        path.write_text(text, encoding="utf-8")
        paths.append(str(path))
    return paths[0], paths[1]


def run(*arguments: str):
    return CliRunner().invoke(app, ["score", *arguments, "scorer.num_workers=1"])


def test_table_counts_verdicts_and_tags(files: tuple[str, str], tmp_path: Path):
    out = tmp_path / "verdicts.jsonl"
    done = run(*files, "--out", str(out))
    assert done.exit_code == 0, done.output
    words = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert words[0] == (
        "7 completions of 5 problems: 50.0 % correct, 58.3 % of tests passed, "
        "3 problems solved at least once, 1 not decided"
    )
    assert "| OK | passed | 2 | 28.6 % |" in words
    assert "| CE | no_code_block | 1 | 14.3 % |" in words
    assert "| INFRA | untrusted_asserts | 1 | 14.3 % |" in words
    assert "| level: 1 | 3 | 33.3 % | 50.0 % |" in words
    assert "| level: 2 | 1 | 100.0 % | 100.0 % |" in words
    assert "scoring: 7/7" in done.stderr
    assert "only work beside the program, which can forge them: 1" in done.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["problem_id"] for row in rows] == [c["problem_id"] for c in COMPLETIONS]
    classes = "passed wrong_answer no_code_block passed exception exact"
    assert [row["error_class"] for row in rows] == [
        *classes.split(),
        "untrusted_asserts",
    ]
    assert [row["num_passed"] for row in rows] == [2, 1, 0, 1, 0, 1, 0]
    assert rows[1]["columns"] == {"model": "m"}
    assert rows[1]["where"].endswith("completions.jsonl:2")
    assert rows[4]["results"][0]["exception"]["line"] == 2


def test_asserts_can_be_trusted(files: tuple[str, str], tmp_path: Path):
    out = tmp_path / "verdicts.parquet"
    done = run(*files, "--trust-asserts", "--out", str(out))
    assert done.exit_code == 0, done.output
    from pyarrow import parquet

    rows = parquet.read_table(out).to_pylist()
    assert rows[-1]["error_class"] == "passed"
    assert json.loads(rows[1]["columns"]) == {"model": "m"}
    assert rows[4]["results"][0]["exception"]["type_name"] == "ZeroDivisionError"
    assert rows[0]["spans"] == [{"start": 10, "end": 38, "label": "code"}]


def test_neither_jax_nor_transformers_is_loaded(files: tuple[str, str]):
    code = (
        "import sys\n"
        "from jaxgrpo.cli import app\n"
        f"app(['score', *{files!r}, 'scorer.num_workers=1'], standalone_mode=False)\n"
        "print('LOADED', *{name.split('.')[0] for name in sys.modules})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split("LOADED")[1].split())
    assert "numpy" in loaded
    assert not loaded & {"jax", "jaxlib", "flax", "transformers", "tensorflow"}


def test_settings_of_the_scorer_are_used(files: tuple[str, str]):
    done = run(*files, "scorer.extraction=raw")
    assert done.exit_code == 0
    assert "syntax_error" in done.stdout
    choice = chosen([], overrides=["scorer.sandbox.cpu_s=3"])
    assert choice.scorer.sandbox.cpu_s == 3.0


def test_judge_that_fails_too_often_exits_1(files: tuple[str, str], tmp_path: Path):
    out = tmp_path / "verdicts.jsonl"
    broken = {
        "id": "bad",
        "kind": "stdin",
        "tests": [{"expected": "", "checker": "1/0"}],
    }
    (tmp_path / "p.jsonl").write_text(json.dumps(broken) + "\n")
    row = {"problem_id": "bad", "text": "```\nprint(1)\n```"}
    (tmp_path / "c.jsonl").write_text(json.dumps(row) + "\n")
    paths = str(tmp_path / "p.jsonl"), str(tmp_path / "c.jsonl")
    done = run(*paths, "--out", str(out))
    assert done.exit_code == 1
    assert "1 of 1 completions could not be judged" in done.stderr
    assert json.loads(out.read_text())["status"] == "INFRA"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run.seed=1"], "'run.seed=1' has no effect on scoring"),
        (["scorer.cpu_s=1"], "Did you mean scorer.sandbox.cpu_s?"),
        (["scorer.extraction=first"], "scorer.extraction"),
        (["--out", "x.csv"], "end its name in .jsonl or .parquet"),
        (["--out", "/no/such/folder/x.jsonl"], "No such file or directory"),
    ],
)
def test_wrong_option_exits_2_with_one_line(
    arguments: list[str], message: str, files: tuple[str, str]
):
    done = CliRunner().invoke(app, ["score", *files, *arguments])
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_wrong_row_exits_2_naming_file_and_line(files: tuple[str, str]):
    with open(files[1], "a", encoding="utf-8") as file:
        file.write('{"problem_id": "tripple", "text": ""}\n')
    done = run(*files)
    assert done.exit_code == 2
    assert f"{files[1]}:8: problem_id 'tripple' is no problem's id." in done.stderr


# The table


def judged(verdict: Verdict, **tags: str) -> Judged:
    problem = Problem(id="p", kind="stdin", prompt="", reference="", tags=tags)
    row = CompletionRow(completion=completion_of("p", ""), columns={}, where="")
    return Judged(row=row, problem=problem, verdict=verdict)


def test_rungs_are_counted_where_there_are_any():
    results = tuple(
        TestResult(status="OK", error_class="passed", rung=rung)
        for rung in ("exact", "close", "exact", "")
    )
    verdict = Verdict(
        status="OK", error_class="passed", num_passed=4, num_tests=4, results=results
    )
    text = "\n".join(summary_lines([judged(verdict)]))
    assert "| exact |     2 | 66.7 % |" in text
    assert "rung" not in "\n".join(
        summary_lines([judged(Verdict(status="WA", error_class="wrong_answer"))])
    )


def test_rates_without_a_decision_are_dashes():
    lost = Verdict(status="INFRA", error_class="infra")
    lines = summary_lines([judged(lost, level="1")])
    assert lines[0].startswith("1 completions of 1 problems: - correct, - of tests")
    assert "| level: 1 |           1 |       - |            - |" in "\n".join(lines)


def test_parquet_holds_text_that_is_no_unicode(tmp_path: Path):
    from pyarrow import parquet

    verdict = Verdict(status="WA", error_class="wrong_value", extracted="a\ud800")
    row = {"problem_id": "p", "where": "", **row_of_verdict(verdict), "columns": {}}
    row |= row_of_rewards(Score(rewards={"exact": math.nan}))
    write_parquet([row], tmp_path / "v.parquet")
    (read,) = parquet.read_table(tmp_path / "v.parquet").to_pylist()
    assert read["extracted"] == "a?"
    assert read["rewards"] == [("exact", None)]
