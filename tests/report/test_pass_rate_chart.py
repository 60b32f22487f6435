from pathlib import Path

import pytest

from jaxgrpo.problems.pass_rates import PassRate, Provenance
from jaxgrpo.report.pass_rate_chart import pass_rate_figure, write_pass_rates


def rates_of(passed: list[int], judged: int) -> list[PassRate]:
    return [
        PassRate(
            problem_id=str(i),
            num_judged=judged,
            num_passed=number,
            num_cut=0,
            mean_tokens=1.0,
        )
        for i, number in enumerate(passed)
    ]


def provenance_of(num_samples: int) -> Provenance:
    return Provenance(
        source="runs/a",
        step=0,
        weights=0,
        dataset="mbpp",
        split="train",
        num_samples=num_samples,
        temperature=1.0,
        max_new_tokens=8,
        seed=0,
        settings="",
    )


@pytest.mark.parametrize("num_samples", [1, 8, 16, 64])
def test_bars_count_every_problem_once_in_its_class(num_samples: int):
    n = num_samples
    passed = [0] * 5 + [n] * 3 + list(range(1, n))
    figure = pass_rate_figure(rates_of(passed, n), provenance_of(n))
    (ax,) = figure.axes
    heights = [sum(bar.get_height() for bar in bars) for bars in ax.containers]
    assert heights == [5, n - 1, 3]
    labels = ax.get_legend_handles_labels()[1]
    assert [label.split(" (")[0] for label in labels] == [
        "unsolved: 5",
        f"partly solved: {n - 1}",
        "solved: 3",
    ]


def test_each_rate_has_a_bar_of_its_own():
    figure = pass_rate_figure(rates_of([0, 1, 1, 4], 4), provenance_of(4))
    (ax,) = figure.axes
    totals = [
        sum(bars[place].get_height() for bars in ax.containers) for place in range(5)
    ]
    assert totals == [1, 2, 0, 0, 1]
    assert [t.get_text() for t in ax.get_xticklabels()] == [
        "0/4",
        "1/4",
        "2/4",
        "3/4",
        "4/4",
    ]


def test_problems_without_a_verdict_are_left_out(tmp_path: Path):
    write_pass_rates(rates_of([0], 0), provenance_of(4), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
