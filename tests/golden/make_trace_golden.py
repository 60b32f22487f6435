"""Stores the events of `traced_programs.py`, which must be the same in every Python.

    python tests/golden/make_trace_golden.py [PYTHON ...]

Each PYTHON is asked too, and an error names the first program whose events differ. They
need no package but NumPy. Run it with at least one Python 3.11, which traces by
`sys.settrace`, and one of 3.12 or newer, which does by `sys.monitoring`.
"""

import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY))

from tests.host.sandbox.events import plain, traced_here  # noqa: E402
from tests.host.sandbox.traced_programs import PROGRAMS  # noqa: E402


def own_events() -> dict[str, object]:
    """Events of all programs in this Python, and its name."""
    way = "monitoring" if hasattr(sys, "monitoring") else "settrace"
    version = ".".join(map(str, sys.version_info[:3]))
    events = {name: plain(traced_here(source)) for name, source in PROGRAMS.items()}
    return {"made_by": [f"{version} {way}"], "events": events}


def main() -> None:
    """Compares the Pythons and writes the file."""
    if sys.argv[1:] == ["--print"]:
        json.dump(own_events(), sys.stdout)
        return
    found = own_events()
    for python in sys.argv[1:]:
        command = [python, __file__, "--print"]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        other = json.loads(done.stdout)
        for name, events in found["events"].items():  # type: ignore[attr-defined]
            if json.loads(json.dumps(events)) != other["events"][name]:
                sys.exit(f"{python} has other events of {name!r}")
        found["made_by"] += other["made_by"]  # type: ignore[operator]
    lines = [
        f"{json.dumps(name)}: {json.dumps(events)}"
        for name, events in found["events"].items()  # type: ignore[attr-defined]
    ]
    made_by = json.dumps(found["made_by"])
    text = f'{{"made_by": {made_by}, "events": {{\n' + ",\n".join(lines) + "\n}}\n"
    Path(__file__).with_name("traces.json").write_text(text)


if __name__ == "__main__":
    main()
