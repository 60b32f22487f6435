"""A checkpoint's folder by its name, and its architecture."""

import json
from pathlib import Path

import pytest

from jaxgrpo.device.model.architecture import config_from_architecture
from jaxgrpo.weights import checkpoint_folder, load_architecture
from tests.weights.tiny import LLAMA


def test_the_architecture_is_that_of_the_config(tmp_path: Path):
    config = config_from_architecture(LLAMA)
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_architecture(tmp_path) == LLAMA


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "no config.json in"), ('{"model_type": ', "config.json is no JSON")],
)
def test_a_folder_without_a_config_says_so(
    tmp_path: Path, text: str | None, message: str
):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        load_architecture(tmp_path)


def test_an_unknown_checkpoint_is_answered_with_the_known_ones(tmp_path: Path):
    with pytest.raises(ValueError, match="no folder"):
        checkpoint_folder(str(tmp_path / "absent"))
    with pytest.raises(ValueError, match="Built in are"):
        checkpoint_folder("builtin:absent")
