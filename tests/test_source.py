import pytest

from jaxgrpo.source import open_source

BASE = "builtin:output_prediction_base"
PROMPT = "def f(x):\n return len(x)\nf([1, 2, 3])"


def test_an_unknown_checkpoint_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="Built in are: .*output_prediction_base"):
        open_source("builtin:nothing", [])


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no folder .*nowhere.*builtin:NAME"):
        open_source(str(tmp_path / "nowhere"), [])


def test_a_run_without_a_checkpoint_is_refused(tmp_path):
    (tmp_path / "config.toml").write_text(
        f'[model]\ncheckpoint = "{BASE}"\n[rewards.exact]\n'
        "[checkpoint]\nevery_steps = 7\n"
    )
    with pytest.raises(ValueError, match=r"no checkpoint yet. Wait for step 7"):
        open_source(str(tmp_path), [])


def test_a_shipped_checkpoint_opens_with_its_defaults():
    source = open_source(BASE, ["sampling.max_new_tokens=5"])
    assert source.step == 0
    assert source.config.sampling.max_new_tokens == 5
    assert isinstance(source.params, dict)  # full weights, no adapters
    assert source.params["embedding_VD"].shape == (448, 192)
    assert source.policy.num_tokens == 407
