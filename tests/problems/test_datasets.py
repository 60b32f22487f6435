import ast
import hashlib
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from jaxgrpo.config import DataConfig
from jaxgrpo.host.records import Problem
from jaxgrpo.problems.datasets import load_problems
from jaxgrpo.problems.output_prediction.generator import LEVELS

from .conftest import SIZES

SPLITS = ("train", "validation", "test")


def test_a_seed_gives_the_same_records_on_every_python(load_split):
    records = [asdict(problem) for split in SPLITS for problem in load_split(split)]
    assert all(record.pop("limits") is None for record in records)
    assert all(record.pop("hint_tiers") == () for record in records)
    text = json.dumps(records, sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest() == (
        "68a772e4a8cdf64d05dd68c753380d4b45729a2cc7916f80240b30442a356921"
    )


def test_a_problem_is_a_function_and_its_call(load_split):
    problem = load_split("validation")[3]
    assert problem.id == "output_prediction/0/validation/000003"
    assert problem.kind == "output"
    code, call = problem.columns["code"], problem.columns["call"]
    assert problem.prompt == f"{code}\n{call}"
    assert problem.tags["difficulty"] in LEVELS


def test_answers_are_what_python_returns(load_split):
    for split in SPLITS:
        for problem in load_split(split):
            namespace: dict[str, object] = {}
            exec(str(problem.columns["code"]), namespace)
            value = eval(str(problem.columns["call"]), namespace)
            assert repr(value) == problem.reference
            assert type(value).__name__ == problem.tags["output_type"]
            assert ast.literal_eval(problem.reference) == value


def test_sizes_are_as_asked(load_split):
    for split in SPLITS:
        assert len(load_split(split)) == SIZES[f"num_{split}"]


def test_no_function_is_in_two_splits(load_split):
    train, validation, test = (
        {problem.columns["code"] for problem in load_split(split)} for split in SPLITS
    )
    assert not train & validation and not train & test and not validation & test


def test_splits_of_different_seeds_are_disjoint_too(load_split, tmp_path):
    data = DataConfig(cache_dir=str(tmp_path), seed=1, build_workers=1, **SIZES)
    other = load_problems(data, "train")
    codes = {problem.columns["code"] for problem in other}
    assert not codes & {problem.columns["code"] for problem in load_split("test")}
    assert codes != {problem.columns["code"] for problem in load_split("train")}


def test_no_problem_is_repeated(load_split):
    prompts = [problem.prompt for split in SPLITS for problem in load_split(split)]
    assert len(set(prompts)) == len(prompts)


def test_random_access_as_in_a_list(load_split):
    problems = load_split("validation")
    everything = list(problems)
    assert problems[-1] == everything[-1]
    assert problems[2:5] == everything[2:5]
    assert all(isinstance(problem, Problem) for problem in everything)
    with pytest.raises(IndexError):
        problems[len(problems)]


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="unknown split: 'dev'"):
        load_problems(DataConfig(), "dev")


PREPARE = """
import sys
from jaxgrpo.config_data import DataConfig
from jaxgrpo.problems.datasets import load_problems

def report(done, wanted):
    print(done, flush=True)

data = DataConfig(
    cache_dir=sys.argv[1], num_train=400, num_validation=5, num_test=20, build_workers=1
)
load_problems(data, "train", report=report)
assert "tensorflow" not in sys.modules and "jax" not in sys.modules
"""


def start(cache_dir: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PREPARE, str(cache_dir)],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_killed_build_leaves_nothing_that_is_read(tmp_path):
    killed = start(tmp_path)
    assert killed.stdout is not None
    assert killed.stdout.readline()
    killed.kill()
    killed.wait()
    killed.stdout.close()
    folder = next(tmp_path.glob("output_prediction/*"))
    assert [path.name.split(".")[0] for path in folder.iterdir()] == ["incomplete"]

    again = start(tmp_path)
    output, _ = again.communicate()
    assert again.returncode == 0
    assert output.split()[-1] == "425"
    assert [path.name for path in folder.iterdir()] == ["1.0.0"]


def test_a_second_load_prepares_nothing(load_split, session_cache):
    load_split("train")
    calls = []
    data = DataConfig(cache_dir=str(session_cache), build_workers=1, **SIZES)
    load_problems(data, "train", report=lambda done, wanted: calls.append(done))
    assert not calls
