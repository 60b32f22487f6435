"""Checkpoints: a tree of arrays, and what the loop must remember beside it.

Knows trees and JSON, not their owners: whatever a run needs to continue bit for bit
goes either into the tree (parameters, optimiser, reference) or into the loop state
(data position, counters, run ids), a dict by owner name.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jax
import orbax.checkpoint as ocp

LOOP_STATE_VERSION = 1
"""Layout of the saved loop state. Each owner versions what is under its own name."""

LoopState = dict[str, Any]


class Checkpointer:
    """Saves and restores the checkpoints of one run. Close it, or use `with`.

    A save copies the arrays off the device before it returns and writes them in the
    background; the caller may donate them at once. A checkpoint appears under its
    final name only when it is complete, so a process killed while saving leaves the
    previous one in place.

    One writer per folder: remains of interrupted saves are removed when it opens.
    Readers use `latest_step` and `restore_part`, which change nothing.

    Args:
      folder: Where the checkpoints lie, one folder per step.
      every_steps: Steps between checkpoints, at least 1.
      keep: Newest checkpoints kept, at least 1.
    """

    def __init__(self, folder: Path, *, every_steps: int, keep: int) -> None:
        self._folder = folder.absolute()
        self._every_steps = every_steps
        self._manager = _manager(
            self._folder,
            create=True,
            cleanup_tmp_directories=True,
            enable_async_checkpointing=True,
            max_to_keep=keep,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Waits for the save in progress."""
        self._manager.close()

    def latest_step(self) -> int | None:
        """Returns the newest saved step, or None when nothing was saved."""
        return self._manager.latest_step()

    def restore(self, step: int, abstract_state: Any) -> tuple[Any, LoopState]:
        """Returns the state and the loop state that were saved at a step.

        Args:
          step: One of the saved steps.
          abstract_state: Tree of `jax.ShapeDtypeStruct` with shardings, of the
            structure that was saved. The sharding may differ from the saved one.

        Returns:
          The saved arrays, bit for bit, in the structure of `abstract_state`; and the
          loop state.

        Raises:
          ValueError: The step was not saved, or another tree was.
        """
        self._manager.wait_until_finished()
        _check_step(self._manager, self._folder, step)
        _check_leaves(self._manager, self._folder, step, abstract_state, partial=False)
        saved = self._manager.restore(
            step,
            args=ocp.args.Composite(
                state=_restore_args(abstract_state, partial=False),
                loop=ocp.args.JsonRestore(),
            ),
        )
        return saved["state"], _unpacked_loop_state(
            saved["loop"], self._folder / f"{step}"
        )

    def loop_state(self, step: int) -> LoopState:
        """Returns the loop state alone that was saved at a step.

        Raises:
          ValueError: The step was not saved.
        """
        self._manager.wait_until_finished()
        _check_step(self._manager, self._folder, step)
        saved = self._manager.restore(
            step, args=ocp.args.Composite(loop=ocp.args.JsonRestore())
        )
        return _unpacked_loop_state(saved["loop"], self._folder / f"{step}")

    def save(self, step: int, state: Any, loop_state: LoopState) -> None:
        """Saves in the background; waits only for the previous save.

        Args:
          step: Updates made so far; above every step saved before.
          state: Tree of arrays. None stands for an absent part and comes back as None.
          loop_state: Plain JSON data by owner name. Tuples come back as lists.
        """
        for owner, value in loop_state.items():
            _check_plain(owner, value)
        self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.PyTreeSave(state),
                loop=ocp.args.JsonSave(
                    {"version": LOOP_STATE_VERSION, "owners": loop_state}
                ),
            ),
            force=True,
        )

    def save_if_due(
        self,
        step: int,
        is_last: bool,
        state: Any,
        loop_state_fn: Callable[[], LoopState],
    ) -> bool:
        """Saves at multiples of `every_steps` and at the last step.

        Args:
          step: Updates made so far.
          is_last: Whether the run ends here.
          state: As for `save`.
          loop_state_fn: Called only when a save is due.

        Returns:
          Whether it saved. A step that is already there is not saved again.
        """
        is_due = is_last or step % self._every_steps == 0
        if not is_due or step == self.latest_step():
            return False
        self.save(step, state, loop_state_fn())
        return True


def latest_step(folder: Path) -> int | None:
    """Returns the newest complete checkpoint's step, or None. Changes nothing."""
    with _manager(folder.absolute(), create=False) as manager:
        return manager.latest_step()


def saved_loop_state(folder: Path, step: int) -> LoopState:
    """Returns the loop state that was saved at a step. Changes nothing.

    Raises:
      ValueError: The step was not saved.
    """
    folder = folder.absolute()
    with _manager(folder, create=False) as manager:
        _check_step(manager, folder, step)
        saved = manager.restore(
            step, args=ocp.args.Composite(loop=ocp.args.JsonRestore())
        )
    return _unpacked_loop_state(saved["loop"], folder / f"{step}")


def restore_part(folder: Path, step: int, abstract_part: Mapping[str, Any]) -> Any:
    """Returns some top-level parts of a saved state. Changes nothing.

    Args:
      folder: Where the checkpoints lie.
      step: One of the saved steps.
      abstract_part: Dict from names of the state's fields, such as `params`, to trees
        of `jax.ShapeDtypeStruct` with shardings.

    Returns:
      A dict of the same keys with the saved arrays.

    Raises:
      ValueError: The step was not saved, or its parts have another shape.
    """
    folder = folder.absolute()
    with _manager(folder, create=False) as manager:
        _check_step(manager, folder, step)
        _check_leaves(manager, folder, step, abstract_part, partial=True)
        args = ocp.args.Composite(state=_restore_args(abstract_part, partial=True))
        return manager.restore(step, args=args)["state"]


def _manager(folder: Path, **options: Any) -> ocp.CheckpointManager:
    return ocp.CheckpointManager(
        folder,
        options=ocp.CheckpointManagerOptions(**options),
        item_handlers={
            "state": ocp.PyTreeCheckpointHandler(),
            "loop": ocp.JsonCheckpointHandler(),
        },
    )


def _restore_args(abstract: Any, *, partial: bool) -> ocp.args.PyTreeRestore:
    return ocp.args.PyTreeRestore(
        item=abstract,
        restore_args=ocp.checkpoint_utils.construct_restore_args(abstract),
        partial_restore=partial,
    )


def _check_plain(owner: str, value: Any) -> None:
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"the loop state of {owner!r} is not plain JSON data: {error}. "
            "Save numbers, strings, lists and dicts."
        ) from error


def _unpacked_loop_state(saved: dict[str, Any], where: Path) -> LoopState:
    if saved["version"] != LOOP_STATE_VERSION:
        raise ValueError(
            f"checkpoint {where} holds a loop state of version {saved['version']}, "
            f"this jaxgrpo reads version {LOOP_STATE_VERSION}. Continue the run with "
            "the version that started it."
        )
    return saved["owners"]


def _check_step(manager: ocp.CheckpointManager, folder: Path, step: int) -> None:
    steps = sorted(manager.all_steps())
    if step not in steps:
        raise ValueError(
            f"no checkpoint of step {step} in {folder}: steps there are {steps}. "
            "Ask for one of them."
        )


def _check_leaves(
    manager: ocp.CheckpointManager,
    folder: Path,
    step: int,
    abstract: Any,
    *,
    partial: bool,
) -> None:
    """Refuses a tree that is not the saved one: orbax would cast types silently."""
    if not (folder / str(step) / "state").is_dir():
        raise ValueError(
            f"checkpoint {folder / str(step)} has no state. Remove that folder to "
            "go on from the checkpoint before it."
        )
    saved = _leaves(manager.item_metadata(step)["state"].tree)
    wanted = _leaves(abstract)
    extra = (
        {} if partial else {name: saved[name] for name in saved if name not in wanted}
    )
    for name in [*wanted, *extra]:
        there, here = saved.get(name, "absent"), wanted.get(name, "absent")
        if there != here and not (here.startswith("key<") and there != "absent"):
            raise ValueError(
                f"checkpoint {folder / str(step)} does not fit: {name} is {there} in "
                f"the checkpoint and {here} in this run. Use the configuration that "
                "the checkpoint was made with, or another run folder."
            )


def _leaves(tree: Any) -> dict[str, str]:
    """Returns each leaf's type and shape under its dotted name."""
    return {
        ".".join(_key_name(key) for key in path): f"{leaf.dtype}{list(leaf.shape)}"
        for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]
    }


def _key_name(key: Any) -> str:
    # A field, a dict key or a position: orbax stores NamedTuples and tuples as dicts
    # and lists, so the three must print alike.
    for attribute in ("name", "key", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)
