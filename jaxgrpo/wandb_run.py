"""Weights & Biases as an optional listener: a run never waits for it or fails by it.

Without a login the run is recorded offline (`wandb sync` uploads it later). Whatever
goes wrong there is said in one line; the files of the run folder are complete either
way.
"""

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

import numpy as np

from jaxgrpo.host.rewards.histogram import Histogram

WandbMode = Literal["auto", "offline", "online", "disabled"]

INIT_TIMEOUT_S = 20.0
"""An online run that cannot be created by then is recorded offline."""
FINISH_TIMEOUT_S = 60.0
"""Uploads that last longer at the end of a run are left to `wandb sync`."""


class WandbRun:
    """One run in Weights & Biases, or nothing where there is none to be had.

    Args:
      folder: Run folder; files go to its `wandb` folder.
      mode: `auto` follows the variable WANDB_MODE, and without it is online where a
        login exists and offline elsewhere.
      project: Project name.
      config: Resolved configuration, plain data.
      run_id: Of the run to continue; None starts one.
      notify: Receives one line when less is recorded than was asked for.
    """

    def __init__(
        self,
        folder: Path,
        *,
        mode: WandbMode,
        project: str,
        config: Mapping[str, Any],
        run_id: str | None,
        notify: Callable[[str], None],
    ) -> None:
        self._notify = notify
        self._init_arguments = {
            "project": project,
            "dir": str(folder),
            "name": folder.absolute().name,
            "id": run_id or secrets.token_hex(4),
            "resume": "allow",
            "config": dict(config),
        }
        self._run = self._started(_chosen_mode(mode))

    @property
    def id(self) -> str | None:
        """To be saved and passed as `run_id` later; None where nothing is recorded."""
        return None if self._run is None else self._init_arguments["id"]

    @property
    def mode(self) -> str:
        """`online` or `offline`, or `disabled` where nothing is recorded."""
        if self._run is None:
            return "disabled"
        return "offline" if self._run.offline else "online"

    def log(
        self,
        step: int,
        metrics: Mapping[str, float],
        histograms: Mapping[str, Histogram] = MappingProxyType({}),
    ) -> None:
        """Records the metrics of a step; steps below the last one are ignored."""

        def record(run: Any) -> None:
            import wandb

            pictures = {
                name: wandb.Histogram(
                    np_histogram=(np.array(h.counts), np.array(h.edges))
                )
                for name, h in histograms.items()
            }
            run.log({**metrics, **pictures}, step=step)

        self._attempt(record)

    def summary(self, values: Mapping[str, Any]) -> None:
        """Records the result of the run."""
        self._attempt(lambda run: run.summary.update(dict(values)))

    def close(self, *, is_failed: bool = False) -> None:
        """Ends the run; uploads are waited for at most `FINISH_TIMEOUT_S`."""
        self._attempt(lambda run: run.finish(exit_code=int(is_failed)))
        self._run = None

    # The broad catches below are meant: the service is a foreign process that fails
    # with types of its own, undocumented ones among them, and none may end a training
    # run. Each is reported.

    def _started(self, mode: WandbMode) -> Any:
        if mode == "disabled":
            return None
        try:
            import wandb

            wandb.setup(settings=wandb.Settings(silent=True, console="off"))
        except Exception as error:  # an import runs code of the package
            self._notify(f"wandb cannot be used ({_line(error)}): nothing goes to it.")
            return None
        if mode != "offline" and self._has_login(wandb, mode):
            try:
                return self._init(wandb, "online")
            except Exception as error:
                self._notify(f"wandb is not reachable ({_line(error)}): now offline.")
                # The failed attempt still holds the run id.
                wandb.teardown()
        try:
            return self._init(wandb, "offline")
        except Exception as error:
            self._notify(f"wandb does not start ({_line(error)}): nothing goes to it.")
            return None

    def _has_login(self, wandb: Any, mode: WandbMode) -> bool:
        try:
            has_login = wandb.login(prompt=False, verify=False)
        except Exception as error:
            self._notify(f"wandb cannot log in ({_line(error)}): recording offline.")
            return False
        if mode == "online" and not has_login:
            self._notify(
                "no wandb login was found: recording offline. Run `wandb login` "
                "first, or `wandb sync` afterwards."
            )
        return has_login

    def _init(self, wandb: Any, mode: Literal["online", "offline"]) -> Any:
        settings = wandb.Settings(
            silent=True,
            console="off",
            init_timeout=INIT_TIMEOUT_S,
            finish_timeout=FINISH_TIMEOUT_S,
        )
        return wandb.init(mode=mode, settings=settings, **self._init_arguments)

    def _attempt(self, action: Callable[[Any], Any]) -> None:
        if self._run is None:
            return
        try:
            action(self._run)
        except Exception as error:
            self._run = None
            self._notify(
                f"wandb stopped ({_line(error)}): from here on metrics are in the run "
                "folder only."
            )


def _chosen_mode(mode: WandbMode) -> WandbMode:
    wish = os.environ.get("WANDB_MODE", "")
    if mode == "auto" and wish in ("offline", "online", "disabled"):
        return cast(WandbMode, wish)
    return mode


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:100] or type(error).__name__
