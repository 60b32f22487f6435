"""How pictures look: one palette, one set of settings, none of them global."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib

# Okabe and Ito's palette: told apart also by colour-blind readers.
BLUE = "#0072B2"
GREEN = "#009E73"
RED = "#D55E00"
AMBER = "#E8C547"
GREY = "#999999"
LIGHT_BLUE = "#9CC9E5"
PURPLE = "#CC79A7"
BROWN = "#8C6D46"

STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "lines.linewidth": 1.6,
    "legend.fontsize": 8.0,
    "legend.frameon": True,
    "legend.edgecolor": "none",
}


@contextmanager
def styled() -> Iterator[None]:
    """Applies the settings to what is drawn inside, and to nothing else."""
    with matplotlib.rc_context(STYLE):
        yield
