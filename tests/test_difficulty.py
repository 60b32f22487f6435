"""Pass rates measured with a tiny model, and what a run keeps by them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from jaxgrpo.config import Config
from jaxgrpo.config_loading import load_config
from jaxgrpo.console import Console
from jaxgrpo.difficulty import rate
from jaxgrpo.problems.pass_rates import read_pass_rates
from jaxgrpo.training_problems import training_problems

NUM_PROBLEMS, NUM_SAMPLES = 12, 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a data set whose references the untrained model may hit, and a config."""
    folder = tmp_path_factory.mktemp("difficulty")
    # Any one digit is an answer that is drawn now and then under the constraint.
    rows = [
        {"id": f"p{i}", "question": f"print({i})", "answer": str(i % 4)}
        for i in range(NUM_PROBLEMS)
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "train.jsonl").write_text(lines)
    (folder / "test.jsonl").write_text(lines.replace('"p', '"t'))
    (folder / "validation.jsonl").write_text(lines.replace('"p', '"v'))
    (folder / "config.toml").write_text(
        f"""
        [model]
        preset = "qwen3-tiny"
        tokenizer = "builtin:output_prediction_tokenizer"
        [data]
        dataset = "file"
        path = "{folder}"
        cache_dir = "{folder}/cache"
        [data.columns]
        id = "id"
        prompt = "question"
        reference = "answer"
        [prompt]
        max_prompt_tokens = 48
        [sampling]
        problems_per_step = 4
        group_size = 2
        max_new_tokens = 4
        constraint = "choice:0|1|2"
        [rewards.exact]
        [scorer]
        num_workers = 1
        [log]
        console = "plain"
        wandb = "disabled"
        """
    )
    return folder


@pytest.fixture(scope="module")
def config(folder: Path) -> str:
    return str(folder / "config.toml")


def measured(config: str, out: Path, *overrides: str, **options: Any) -> list[Any]:
    return rate(config, overrides, num_samples=NUM_SAMPLES, out=out, **options)


@pytest.fixture(scope="module")
def rates(config: str, folder: Path) -> Path:
    out = folder / "rates.jsonl"
    measured(config, out)
    return out


def test_every_problem_has_a_rate(rates: Path):
    found, provenance = read_pass_rates(rates)
    assert {r.problem_id for r in found} == {f"p{i}" for i in range(NUM_PROBLEMS)}
    assert {r.num_judged for r in found} == {NUM_SAMPLES}
    passed = {r.problem_id: r.num_passed for r in found}
    # 3 is never drawn; the others are, now and then.
    assert all(passed[f"p{i}"] == 0 for i in range(3, NUM_PROBLEMS, 4))
    assert sum(passed.values()) > 0
    assert provenance.num_samples == NUM_SAMPLES
    assert (provenance.dataset, provenance.split) == ("file", "train")
    assert rates.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_interrupted_measurement_goes_on_where_it_stopped(
    config: str, folder: Path, rates: Path, capsys: pytest.CaptureFixture[str]
):
    out = folder / "again.jsonl"
    lines = rates.read_text().splitlines(keepends=True)
    # Killed in the middle of the sixth line.
    out.write_text("".join(lines[:5]) + lines[5][:30])
    measured(config, out)
    assert f"5 problems are in {out} already" in capsys.readouterr().out
    assert sorted(out.read_text().splitlines()) == sorted(
        rates.read_text().splitlines()
    )
    before = out.read_text()
    measured(config, out)
    assert out.read_text() == before


def test_table_is_written_whole_at_the_end(config: str, folder: Path, rates: Path):
    out = folder / "rates.parquet"
    lines = rates.read_text().splitlines(keepends=True)
    partial = out.with_suffix(".partial.jsonl")
    partial.write_text("".join(lines[:7]))
    measured(config, out)
    assert not partial.exists()
    one, other = read_pass_rates(out), read_pass_rates(rates)
    assert one[1] == other[1]
    assert {r.problem_id: r for r in one[0]} == {r.problem_id: r for r in other[0]}


def test_rates_of_other_settings_are_not_mixed(config: str, rates: Path):
    with pytest.raises(ValueError, match=r"its temperature is 1\.0, not 0\.7"):
        measured(config, rates, "sampling.temperature=0.7")
    with pytest.raises(ValueError, match="its settings is"):
        measured(config, rates, "prompt.system=Hm")
    with pytest.raises(ValueError, match="its split is 'train', not 'test'"):
        measured(config, rates, split="test")


def test_out_is_checked_first(config: str, tmp_path: Path):
    with pytest.raises(ValueError, match=r"end its name in \.jsonl or \.parquet"):
        measured(config, tmp_path / "rates.csv")
    with pytest.raises(ValueError, match="there is no folder"):
        measured(config, tmp_path / "none" / "rates.jsonl")


# The training side


def kept(config: Config, folder: Path, said: io.StringIO | None = None) -> list[str]:
    with Console("plain", 1, stream=said or io.StringIO()) as console:
        return [p.id for p in training_problems(config, folder, console)]


def test_run_keeps_what_the_rules_say(config: str, rates: Path, tmp_path: Path):
    said = io.StringIO()
    overrides = [f"data.difficulty={rates}", "data.keep_partly_solved=1.0"]
    found, _ = read_pass_rates(rates)
    solved = {r.problem_id for r in found if r.num_passed == NUM_SAMPLES}
    names = kept(load_config(config, overrides), tmp_path, said)
    assert set(names) == {r.problem_id for r in found} - solved
    assert f"kept {len(names)} of {NUM_PROBLEMS} problems" in said.getvalue()
    record = json.loads((tmp_path / "kept_problems.json").read_text())
    assert sum(record["kept"].values()) == len(names)
    # Again, as when the run is resumed.
    assert kept(load_config(config, overrides), tmp_path) == names


def test_without_a_file_all_are_kept(config: str, tmp_path: Path):
    assert len(kept(load_config(config), tmp_path)) == NUM_PROBLEMS
    assert not (tmp_path / "kept_problems.json").exists()


def test_file_that_changed_under_a_run_is_refused(
    config: str, rates: Path, tmp_path: Path
):
    copy = tmp_path / "copy.jsonl"
    copy.write_text(rates.read_text())
    checked = load_config(
        config, [f"data.difficulty={copy}", "data.keep_partly_solved=1.0"]
    )
    kept(checked, tmp_path)
    copy.write_text("".join(rates.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(ValueError, match="has changed since the run began"):
        kept(checked, tmp_path)


def test_rates_of_other_problems_are_refused(config: str, rates: Path, tmp_path: Path):
    other = tmp_path / "other.jsonl"
    rows = [json.loads(line) for line in rates.read_text().splitlines()]
    for row in rows:
        row["problem_id"] = f"another {row['problem_id']}"
    other.write_text("".join(json.dumps(row) + "\n" for row in rows))
    checked = load_config(config, [f"data.difficulty={other}"])
    with pytest.raises(ValueError, match="none of the 12 problems of file train"):
        kept(checked, tmp_path)


def test_too_few_problems_are_refused(config: str, rates: Path, tmp_path: Path):
    overrides = [
        f"data.difficulty={rates}",
        "data.keep_partly_solved=0.0",
        "data.max_unsolved=1",
    ]
    with pytest.raises(ValueError, match="a batch needs 4"):
        kept(load_config(config, overrides), tmp_path)


def test_rules_without_a_file_are_refused(config: str):
    with pytest.raises(ValueError, match="has no effect without data.difficulty"):
        load_config(config, ["data.keep_unsolved=0.5"])
