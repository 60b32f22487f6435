"""Evaluations side by side as one picture: `evaluation.png` in the run folder."""

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from jaxgrpo.report.evaluation_table import (
    CLASS_PREFIX,
    Evaluation,
    entry_of,
    label_of,
)
from jaxgrpo.report.style import (
    AMBER,
    BLUE,
    BROWN,
    GREEN,
    GREY,
    LIGHT_BLUE,
    PURPLE,
    RED,
    styled,
)

_COLUMN_COLORS = (LIGHT_BLUE, BLUE, GREY, AMBER)

_GROUPS = (
    ("frac_reward_all_zero", RED),
    ("frac_reward_mixed", AMBER),
    ("frac_reward_all_one", GREEN),
)
_CLASSES = {
    "error_class/not_one_literal": GREY,
    "error_class/wrong_value": RED,
    "error_class/wrong_answer": RED,
    "error_class/wrong_repr": AMBER,
    "error_class/exact": GREEN,
    "error_class/passed": GREEN,
}
"""From worst to best; other classes stand before them in colours of their own."""
_OTHER_CLASSES = (GREY, LIGHT_BLUE, AMBER, BLUE, PURPLE, BROWN)


def write_evaluation(run_folder: Path, evaluations: Mapping[str, Evaluation]) -> Path:
    """Draws evaluations side by side.

    Args:
      run_folder: Where to write.
      evaluations: By title in order, such as before, after, reference.

    Returns:
      Path of the picture.
    """
    path = run_folder / "evaluation.png"
    FigureCanvasAgg(evaluation_figure(evaluations)).print_png(path)
    return path


def evaluation_figure(evaluations: Mapping[str, Evaluation]) -> Figure:
    """Returns exact match and pass@k with standard errors, error classes and groups."""
    stacks = [
        (title, parts)
        for title, parts in (
            ("Kinds of error, greedy", _classes(evaluations)),
            ("Groups of samples", _GROUPS),
        )
        if any(name in e for e in evaluations.values() for name, _ in parts)
    ]
    with styled():
        figure = Figure(figsize=(11.2, 4.2), dpi=130, layout="constrained")
        left, right = figure.subfigures(1, 2, squeeze=False)[0]
        _scores(left.subplots(), evaluations)
        for i, (title, parts) in enumerate(stacks):
            _stack(right.add_subplot(len(stacks), 1, i + 1), evaluations, title, parts)
    return figure


def _classes(evaluations: Mapping[str, Evaluation]) -> list[tuple[str, str]]:
    """The classes that occur, with their colours: the most frequent unnamed first."""
    totals: dict[str, float] = {}
    for evaluation in evaluations.values():
        for name, entry in evaluation.items():
            if name.startswith(CLASS_PREFIX):
                totals[name] = totals.get(name, 0.0) + entry["value"]
    others = sorted(totals.keys() - _CLASSES.keys(), key=lambda name: -totals[name])
    colors = itertools.cycle(_OTHER_CLASSES)
    return [
        *zip(others, colors, strict=False),
        *((name, color) for name, color in _CLASSES.items() if name in totals),
    ]


def _scores(ax: Axes, evaluations: Mapping[str, Evaluation]) -> None:
    found = {name: None for e in evaluations.values() for name in e}
    names = [name for name in found if name == "exact_match" or "pass@" in name]
    width = 0.8 / len(evaluations)
    for i, (title, evaluation) in enumerate(evaluations.items()):
        present = [j for j, name in enumerate(names) if _has(evaluation, name)]
        offset = (i - (len(evaluations) - 1) / 2) * width
        bars = ax.bar(
            [j + offset for j in present],
            [evaluation[names[j]]["value"] for j in present],
            width,
            yerr=[evaluation[names[j]]["se"] for j in present],
            color=_COLUMN_COLORS[i % len(_COLUMN_COLORS)],
            error_kw={"capsize": 2.5, "linewidth": 1.0},
            label=title,
        )
        ax.bar_label(
            bars, fmt=lambda share: f"{100 * share:.1f}", padding=2, fontsize=7.5
        )
    labels = [label_of(name, evaluations).replace(", ", ",\n") for name in names]
    ax.set_xticks(np.arange(len(names)), labels)
    ax.grid(visible=False, axis="x")
    ax.set_ylim(0.0, 1.0 if _highest(names, evaluations) < 0.9 else 1.08)
    ax.set_yticks(np.arange(0.0, 1.01, 0.2))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_ylabel("share of problems (± 1 s.e.)")
    ax.set_title("Solved problems")
    ax.legend(loc="upper left", ncols=len(evaluations))


def _highest(names: Sequence[str], evaluations: Mapping[str, Evaluation]) -> float:
    return max(
        (
            e[name]["value"]
            for e in evaluations.values()
            for name in names
            if _has(e, name)
        ),
        default=0.0,
    )


def _has(evaluation: Evaluation, name: str) -> bool:
    return name in evaluation and evaluation[name]["value"] is not None


def _stack(
    ax: Axes,
    evaluations: Mapping[str, Evaluation],
    title: str,
    parts: Sequence[tuple[str, str]],
) -> None:
    shown = [
        name for name in evaluations if any(p in evaluations[name] for p, _ in parts)
    ]
    left = np.zeros(len(shown))
    for name, color in parts:
        entries = [entry_of(evaluations[column], name) for column in shown]
        shares = np.array([0.0 if e is None else e["value"] for e in entries])
        label = label_of(name, {}).removeprefix("groups: ").removeprefix("- ")
        bars = ax.barh(shown, shares, left=left, color=color, label=label, height=0.7)
        texts = [f"{100 * share:.0f}" if share >= 0.04 else "" for share in shares]
        ax.bar_label(bars, texts, label_type="center", fontsize=8)
        left += shares
    ax.invert_yaxis()
    ax.set_xlim(0.0, 1.0)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.grid(visible=False)
    ax.set_xlabel("share of problems")
    ax.set_title(title)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
