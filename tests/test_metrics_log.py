import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from jaxgrpo.glossary import GLOSSARY, definition, is_timing
from jaxgrpo.metrics_log import MetricLog, evaluation_metrics, read_metrics


def make_log(folder: Path, **changes) -> MetricLog:
    settings = {"wandb_mode": "disabled", "project": "test", "config": {}} | changes
    return MetricLog(folder, **settings)


def test_each_step_is_one_line(tmp_path):
    with make_log(tmp_path) as log:
        log.write(0, {"eval/exact_match": 0.25})
        log.write(3, {"reward": 0.1 + 0.2, "timing_s/gen": 2.0})
    assert read_metrics(tmp_path) == [
        {"step": 0, "eval/exact_match": 0.25},
        {"step": 3, "reward": 0.1 + 0.2, "timing_s/gen": 2.0},
    ]


def test_a_line_is_on_disk_when_write_returns(tmp_path):
    with make_log(tmp_path) as log:
        log.write(1, {"reward": 0.5})
        assert read_metrics(tmp_path) == [{"step": 1, "reward": 0.5}]


def test_every_line_is_standard_json_and_reads_back(tmp_path):
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    written = {
        "kl": math.nan,
        "loss": math.inf,
        "policy_loss": -math.inf,
        "reward": 1e-9,
    }
    with make_log(tmp_path) as log:
        log.write(1, written)
    text = (tmp_path / "metrics.jsonl").read_text()
    assert json.loads(text, parse_constant=refuse)["kl"] is None
    (line,) = read_metrics(tmp_path)
    assert math.isnan(line.pop("kl"))
    assert line == {
        "step": 1,
        "loss": math.inf,
        "policy_loss": -math.inf,
        "reward": 1e-9,
    }


def test_an_unknown_name_is_an_error_and_writes_nothing(tmp_path):
    with make_log(tmp_path) as log:
        with pytest.raises(AssertionError, match="'rewrad' is not in the glossary"):
            log.write(1, {"reward": 1.0, "rewrad": 1.0})
    assert read_metrics(tmp_path) == []


def test_a_step_is_written_once(tmp_path):
    with make_log(tmp_path) as log:
        log.write(2, {"reward": 1.0})
        with pytest.raises(AssertionError, match="step 2 does not follow step 2"):
            log.write(2, {"reward": 1.0})


@pytest.mark.parametrize(
    ("resume_step", "kept"), [(None, []), (0, [0]), (2, [0, 1, 2]), (9, [0, 1, 2, 3])]
)
def test_resuming_drops_later_lines(tmp_path, resume_step, kept):
    with make_log(tmp_path) as log:
        for step in range(4):
            log.write(step, {"reward": step / 7})
    before = (tmp_path / "metrics.jsonl").read_bytes().splitlines()
    with make_log(tmp_path, resume_step=resume_step) as log:
        assert [line["step"] for line in read_metrics(tmp_path)] == kept
        log.write(10, {"reward": 0.5})
    after = (tmp_path / "metrics.jsonl").read_bytes().splitlines()
    assert after[:-1] == before[: len(kept)]
    assert json.loads(after[-1]) == {"step": 10, "reward": 0.5}


@pytest.mark.parametrize("tail", [b'{"step": 2, "rew', b"\xff\xfe{", b"\0\0\0\n"])
def test_a_half_written_end_is_dropped(tmp_path, tail):
    with make_log(tmp_path) as log:
        log.write(1, {"reward": 1.0})
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(tail)
    with make_log(tmp_path, resume_step=5) as log:
        log.write(2, {"reward": 2.0})
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2]


def test_a_broken_line_among_whole_ones_is_not_dropped_silently(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\nnonsense\n{"step": 2}\n')
    with pytest.raises(ValueError, match="no metrics: 'nonsense'"):
        make_log(tmp_path, resume_step=2)


@pytest.mark.parametrize(
    "name",
    [
        "reward",
        "rewards/exact/mean",
        "clip_ratio/high_mean",
        "sampling/sampling_logp_difference/max",
        "eval/pass@8",
        "eval/frac_reward_all_zero",
        "eval_se/error_class/wrong_repr",
        "error_class/wrong_value",
        "timing_s/gen",
    ],
)
def test_names_in_use_are_defined(name):
    assert definition(name)


@pytest.mark.parametrize(
    "name", ["rewards/exact", "rewards/a/b/mean", "timing_s/a/b", "step", "", "Reward"]
)
def test_other_names_are_not_defined(name):
    assert definition(name) is None


def test_definitions_are_one_sentence_each():
    for name, meaning in GLOSSARY.items():
        assert meaning.endswith(".") and "\n" not in meaning, name


def test_timings_are_told_from_what_repeats():
    assert is_timing("timing_s/reward") and is_timing("perf/tokens_per_s")
    assert not is_timing("reward") and not is_timing("eval/exact_match")


def test_an_evaluation_becomes_defined_metrics():
    evaluation = {
        "num_problems": 10,
        "exact_match": {"value": 0.5, "se": 0.1},
        "frac_reward_all_zero": {"value": 0.2, "se": 0.05},
        "error_class/not_one_literal": {"value": 0.0, "se": 0.0},
    }
    metrics = evaluation_metrics(evaluation)
    assert metrics["eval/exact_match"] == 0.5
    assert metrics["eval_se/frac_reward_all_zero"] == 0.05
    assert all(definition(name) for name in metrics)


# wandb runs in a process of its own, so that each case meets a fresh service.

LOGS_WITH_WANDB = """
import sys
from pathlib import Path
import jaxgrpo.wandb_run
from jaxgrpo.metrics_log import MetricLog

jaxgrpo.wandb_run.INIT_TIMEOUT_S = 2.0
folder, mode, wandb_id = Path(sys.argv[1]), sys.argv[2], sys.argv[3] or None
with MetricLog(folder, wandb_mode=mode, project="test", config={"run": {"seed": 0}},
               wandb_id=wandb_id) as log:
    print("id", log.wandb_id)
    log.write(1, {"reward": 0.5})
    log.summary({"exact_match": 0.75})
"""


def log_with_wandb(
    folder: Path, mode: str, wandb_id: str = "", **environment: str
) -> list[str]:
    """Returns the output lines of a process that logs one step. It must not hang."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WANDB")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", LOGS_WITH_WANDB, folder, mode, wandb_id],
        env={**kept, "HOME": str(folder), "PYTHONPATH": os.getcwd(), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    assert read_metrics(folder) == [{"step": 1, "reward": 0.5}]
    return done.stdout.splitlines()


def test_without_a_login_wandb_records_offline_and_silently(tmp_path):
    lines = log_with_wandb(tmp_path, "auto", wandb_id="abcd1234")
    assert lines == ["id abcd1234"]
    assert list((tmp_path / "wandb").glob("offline-run-*-abcd1234/run-*.wandb"))


def test_an_unreachable_server_is_said_and_does_not_stop_the_run(tmp_path):
    lines = log_with_wandb(
        tmp_path, "auto", WANDB_API_KEY="a" * 40, WANDB_BASE_URL="http://127.0.0.1:9"
    )
    assert len(lines) == 2 and lines[0].startswith("wandb is not reachable (")
    assert lines[0].endswith("): now offline.")
    assert list((tmp_path / "wandb").glob("offline-run-*"))


def test_online_without_a_login_says_so_and_never_prompts(tmp_path):
    lines = log_with_wandb(tmp_path, "online")
    assert lines[0].startswith("no wandb login was found: recording offline.")
    assert list((tmp_path / "wandb").glob("offline-run-*"))


def test_the_users_wandb_mode_is_followed_by_auto(tmp_path):
    lines = log_with_wandb(tmp_path, "auto", WANDB_MODE="disabled")
    assert lines == ["id None"]
    assert not (tmp_path / "wandb").exists()


def test_disabled_never_imports_wandb(tmp_path):
    code = LOGS_WITH_WANDB + "\nassert 'wandb' not in sys.modules"
    arguments = [sys.executable, "-c", code, tmp_path, "disabled", ""]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    subprocess.run(arguments, check=True, env=environment, timeout=60)
