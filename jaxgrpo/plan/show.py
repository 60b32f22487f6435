"""What `jaxgrpo plan` prints: progress to standard error, the plan to the output."""

import json
import sys

from jaxgrpo.config import Config
from jaxgrpo.plan.fit import fit
from jaxgrpo.plan.layouts import layout_toml
from jaxgrpo.plan.planning import Plan, find_target, make_plan
from jaxgrpo.plan.report import plan_data, plan_lines


def show_plan(config: Config, topology_name: str, as_json: bool) -> bool:
    """Prints the plan of a run as it is configured; returns whether it fits.

    Args:
      config: Of a `grpo` run.
      topology_name: Of the devices.
      as_json: Print data instead of text.
    """
    plan = make_plan(config, find_target(config, topology_name), _progress)
    _print(plan, as_json)
    return plan.fits


def show_fit(
    config: Config, topology_name: str, as_json: bool, *, max_compiled: int
) -> bool:
    """Prints the plan of the fastest layout that fits; returns whether there is one.

    Args:
      config: Of a `grpo` run.
      topology_name: Of the devices.
      as_json: Print data instead of text.
      max_compiled: Layouts to compile at most.
    """
    target = find_target(config, topology_name)
    plan = fit(config, target, _progress, max_compiled=max_compiled)
    if plan is None:
        return False
    _print(plan, as_json)
    if not as_json:
        print("\n# put this in the configuration\n" + layout_toml(plan.layout), end="")
    return True


def _print(plan: Plan, as_json: bool) -> None:
    if as_json:
        print(json.dumps(plan_data(plan), indent=2))
    else:
        print("\n".join(plan_lines(plan)))


def _progress(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
