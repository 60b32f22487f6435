import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxgrpo.checkpoint import Checkpointer, latest_step, restore_part


class State(NamedTuple):
    step: Any
    params: Any
    opt_state: Any
    ref_params: Any


def make_state(seed: int = 0, *, with_reference: bool = False) -> State:
    rng = np.random.default_rng(seed)
    params = {
        "layers": {"w": jnp.asarray(rng.normal(size=(3, 4, 5)), jnp.float32)},
        "embed": jnp.asarray(rng.normal(size=(7, 4)), jnp.bfloat16),
    }
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.contrib.muon(1e-2))
    return State(
        step=jnp.int32(seed),
        params=params,
        opt_state=optimizer.init(params),
        ref_params=params if with_reference else None,
    )


def abstract(tree: Any) -> Any:
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding),
        tree,
    )


def assert_same_bits(actual: Any, expected: Any) -> None:
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("with_reference", [False, True])
def test_state_comes_back_bitwise_in_its_structure(tmp_path, with_reference):
    state = make_state(3, with_reference=with_reference)
    with Checkpointer(tmp_path, every_steps=1, keep=2) as checkpointer:
        checkpointer.save(3, state, {})
    with Checkpointer(tmp_path, every_steps=1, keep=2) as checkpointer:
        restored, _ = checkpointer.restore(3, abstract(state))
    assert isinstance(restored, State)
    assert (restored.ref_params is not None) == with_reference
    assert_same_bits(restored, state)


def test_loop_state_comes_back(tmp_path):
    loop = {
        "stream": {"version": 1, "position": 12, "epoch": 0},
        "wandb": {"id": "abc", "note": "é\n\ud800"},
        "best": {"value": 0.1 + 0.2},
    }
    with Checkpointer(tmp_path, every_steps=1, keep=1) as checkpointer:
        checkpointer.save(1, make_state(), loop)
        assert checkpointer.restore(1, abstract(make_state()))[1] == loop


def test_empty_folder_has_no_step(tmp_path):
    with Checkpointer(tmp_path / "new", every_steps=1, keep=1) as checkpointer:
        assert checkpointer.latest_step() is None
    assert latest_step(tmp_path / "new") is None


def test_only_the_newest_are_kept(tmp_path):
    with Checkpointer(tmp_path, every_steps=1, keep=2) as checkpointer:
        for step in (1, 2, 3, 4):
            checkpointer.save(step, make_state(step), {})
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["3", "4"]
    assert latest_step(tmp_path) == 4


def test_saves_when_due_and_at_the_end(tmp_path):
    with Checkpointer(tmp_path, every_steps=3, keep=9) as checkpointer:
        saved = [
            step
            for step in range(1, 9)
            if checkpointer.save_if_due(step, step == 8, make_state(), dict)
        ]
        assert saved == [3, 6, 8]
        assert not checkpointer.save_if_due(8, True, make_state(), dict)


def test_loop_state_is_asked_for_only_when_due(tmp_path):
    with Checkpointer(tmp_path, every_steps=2, keep=1) as checkpointer:
        checkpointer.save_if_due(1, False, make_state(), lambda: pytest.fail("asked"))


def test_arrays_donated_right_after_a_save_do_not_change_it(tmp_path):
    overwrite = jax.jit(
        lambda tree: jax.tree.map(jnp.zeros_like, tree), donate_argnums=0
    )
    state = {"w": jnp.arange(2.0**20)}
    expected = np.array(state["w"])
    with Checkpointer(tmp_path, every_steps=1, keep=1) as checkpointer:
        checkpointer.save(1, state, {})
        state = overwrite(state)
        jax.block_until_ready(state)
        restored, _ = checkpointer.restore(1, abstract(state))
    np.testing.assert_array_equal(restored["w"], expected)


@pytest.mark.skipif(len(jax.devices()) < 2, reason="needs two devices")
def test_restores_onto_another_sharding(tmp_path):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("data",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
    state = {"w": jnp.arange(8.0)}
    wanted = {"w": jax.ShapeDtypeStruct((8,), jnp.float32, sharding=sharding)}
    with Checkpointer(tmp_path, every_steps=1, keep=1) as checkpointer:
        checkpointer.save(1, state, {})
        restored, _ = checkpointer.restore(1, wanted)
    assert restored["w"].sharding == sharding
    assert_same_bits(restored, state)


def with_wider_layer(state: State) -> State:
    wider = {**state.params, "layers": {"w": jnp.zeros((3, 4, 6))}}
    return state._replace(params=wider)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            with_wider_layer,
            r"params\.layers\.w is float32\[3, 4, 5\] in the checkpoint and "
            r"float32\[3, 4, 6\] in this run",
        ),
        (
            lambda state: state._replace(step=jnp.float32(0)),
            r"step is int32\[\] in the checkpoint and float32\[\] in this run",
        ),
        (
            lambda state: state._replace(ref_params={"embed": jnp.zeros(2)}),
            r"ref_params\.embed is absent in the checkpoint and float32\[2\]",
        ),
        (
            lambda state: state._replace(params={"embed": state.params["embed"]}),
            r"params\.layers\.w is float32\[3, 4, 5\] in the checkpoint and absent",
        ),
    ],
)
def test_another_tree_is_refused_naming_the_leaf(tmp_path, change, message):
    with Checkpointer(tmp_path, every_steps=1, keep=1) as checkpointer:
        checkpointer.save(1, make_state(), {})
        with pytest.raises(ValueError, match=message):
            checkpointer.restore(1, abstract(change(make_state())))


def test_a_step_that_was_not_saved_is_refused(tmp_path):
    with Checkpointer(tmp_path, every_steps=1, keep=1) as checkpointer:
        checkpointer.save(5, make_state(), {})
        with pytest.raises(ValueError, match=r"step 7 .* steps there are \[5\]"):
            checkpointer.restore(7, abstract(make_state()))


def test_loop_state_that_json_cannot_hold_is_refused_naming_its_owner(tmp_path):
    with Checkpointer(tmp_path, every_steps=1, keep=1) as checkpointer:
        with pytest.raises(TypeError, match=r"'stream' is not plain JSON"):
            checkpointer.save(1, make_state(), {"stream": {"position": np.int32(3)}})


def test_loop_state_of_another_version_is_refused(tmp_path):
    with Checkpointer(tmp_path, every_steps=1, keep=1) as checkpointer:
        checkpointer.save(1, make_state(), {})
    path = tmp_path / "1" / "loop" / "metadata"
    path.write_text(json.dumps({"version": 99, "owners": {}}))
    with Checkpointer(tmp_path, every_steps=1, keep=1) as checkpointer:
        with pytest.raises(ValueError, match="version 99"):
            checkpointer.restore(1, abstract(make_state()))


def test_a_part_can_be_read_alone(tmp_path):
    state = make_state(2)
    with Checkpointer(tmp_path, every_steps=1, keep=1) as checkpointer:
        checkpointer.save(2, state, {})
    part = restore_part(tmp_path, 2, {"params": abstract(state.params)})
    assert_same_bits(part, {"params": state.params})


SAVES_FOREVER = """
import sys
from pathlib import Path
import jax.numpy as jnp
import numpy as np
from jaxgrpo.checkpoint import Checkpointer

noise = np.random.default_rng(0).random(2**23, dtype=np.float32)
with Checkpointer(Path(sys.argv[1]), every_steps=1, keep=2) as checkpointer:
    for step in range(1, 1000):
        state = {"w": jnp.asarray(noise) + step}
        checkpointer.save(step, state, {"counter": {"step": step}})
        if step > 1:  # save() has waited for the one before
            print(step - 1, flush=True)
"""


def is_partial(path: Path) -> bool:
    return not path.name.isdigit()


def killed_while_saving(folder: Path) -> int:
    """Kills a process in the middle of a save; returns the last step it confirmed."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.getcwd()}
    child = subprocess.Popen(
        [sys.executable, "-c", SAVES_FOREVER, str(folder)],
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    )
    assert child.stdout is not None
    confirmed = int(child.stdout.readline())
    deadline = time.monotonic() + 60.0
    while not any(is_partial(path) for path in folder.iterdir()):
        assert time.monotonic() < deadline, "no save was seen in progress"
    child.send_signal(signal.SIGKILL)
    child.wait()
    later = [int(line) for line in child.stdout.read().split()]
    child.stdout.close()
    return max([confirmed, *later])


def test_a_process_killed_while_saving_leaves_the_previous_checkpoint(tmp_path):
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        confirmed = killed_while_saving(folder)
        if any(is_partial(path) for path in folder.iterdir()):
            break
    else:
        pytest.fail("five processes were killed and none in the middle of a save")

    noise = np.random.default_rng(0).random(2**23, dtype=np.float32)
    wanted = abstract({"w": jnp.asarray(noise)})
    with Checkpointer(folder, every_steps=1, keep=2) as checkpointer:
        step = checkpointer.latest_step()
        assert step is not None and step >= confirmed
        restored, loop = checkpointer.restore(step, wanted)
        assert_same_bits(restored, {"w": jnp.asarray(noise) + step})
        assert loop == {"counter": {"step": step}}
        assert not any(is_partial(path) for path in folder.iterdir())
        # The run goes on where the kill struck.
        checkpointer.save(step + 1, restored, loop)
    assert latest_step(folder) == step + 1
