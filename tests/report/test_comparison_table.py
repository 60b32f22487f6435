"""The tables of `jaxgrpo evaluate`, from a small result made by hand."""

from typing import Any

from jaxgrpo.report.comparison_table import (
    as_markdown,
    class_table,
    comparison_table,
    flip_counts,
    flip_table,
    result_tables,
    tag_table,
)


def entry(value: float, half: float = 0.1) -> dict[str, float]:
    return {"value": value, "se": half / 2, "low": value - half, "high": value + half}


def evaluation(exact: float) -> dict[str, Any]:
    return {
        "num_problems": 40,
        "dropped_prompts": 0,
        "exact_match": entry(exact),
        "error_class/wrong_value": entry(1 - exact),
        "error_class/exact": entry(exact),
        "mean_length": entry(6.0),
        "pass@1": entry(exact),
        "pass@4": entry(exact + 0.1),
        "pass@16": entry(exact + 0.2),
        "majority@4": entry(exact),
        "majority@16": entry(exact),
    }


FLIPS = {
    "wrong_to_right": [
        {"problem_id": f"p{i}", "before": "wrong_repr", "after": "exact"}
        for i in range(3)
    ],
    "right_to_wrong": [
        {"problem_id": "q", "before": "exact", "after": "not_one_literal"}
    ],
    "both_right": 10, "both_wrong": 26, "undecided": 0, "p_value": 0.625,
}  # fmt: skip
ALONE = {
    "source": "new",
    "evaluation": evaluation(0.4),
    "by_tag": {"level": {"easy": evaluation(0.6), "hard": evaluation(0.2)}},
    "settings": {"split": "test", "confidence": 0.95},
}
CHANGES = {"exact_match": entry(0.3), "mean_length": entry(-0.05), "pass@1": entry(0.1)}
AGAINST = ALONE | {
    "against": {"source": "old", "evaluation": evaluation(0.1)},
    "comparison": {
        "num_problems": 40,
        "differences": CHANGES,
        "flips": FLIPS,
        "by_tag": {"level": {"easy": {"num_problems": 20, "differences": CHANGES}}},
    },
}


def row(table, label: str) -> tuple[str, ...]:
    (found,) = [cells[1:] for cells in table.rows if cells[0] == label]
    return found


def test_differences_stand_beside_both_with_a_star_where_they_leave_out_zero():
    table = comparison_table(AGAINST)
    assert table.header == ("", "old", "new", "difference")
    assert row(table, "exact match, greedy") == (
        "10.0 [0.0, 20.0] %", "40.0 [30.0, 50.0] %", "+30.0 [+20.0, +40.0] *",
    )  # fmt: skip
    assert row(table, "mean length, tokens")[2] == "-0.05 [-0.15, +0.05]"
    assert row(table, "problems") == ("40", "40", "")


def test_flips_are_counted_and_listed_by_their_direction():
    counts = flip_counts(AGAINST)
    assert counts.header[0] == "old -> new"
    assert row(counts, "wrong -> right") == ("3",)
    assert row(counts, "p, McNemar exact") == ("0.625",)
    listed = flip_table(FLIPS)
    assert row(listed, "q") == ("right -> wrong", "exact", "not one literal")
    assert row(listed, "p0") == ("wrong -> right", "wrong notation", "exact")


def test_a_long_list_of_flips_says_how_many_more_there_are():
    listed = flip_table(FLIPS, most=1)
    assert [cells[0] for cells in listed.rows] == ["p0", "... 2 more", "q"]


def test_a_table_by_tag_has_the_smallest_and_the_largest_k():
    table = tag_table("level", ALONE["by_tag"]["level"])
    assert table.header == (
        "level", "problems", "exact match, greedy", "pass@1", "pass@16", "majority@16",
    )  # fmt: skip
    assert row(table, "hard")[:2] == ("40", "20.0 [10.0, 30.0] %")


def test_kinds_of_error_by_tag_have_standard_errors():
    table = class_table("level", ALONE["by_tag"]["level"])
    assert table.header == ("level", "problems", "wrong value")
    assert row(table, "easy") == ("40", "40.0 ± 5.0 %")


def test_a_page_has_all_tables_under_their_titles():
    titles = [title for title, _ in result_tables(AGAINST)]
    assert titles == [
        "test split, 95 % intervals", "Greedy answers, from one to the other",
        "Flipped problems", "Differences by level", "new by level",
        "Kinds of error by level",
    ]  # fmt: skip
    page = as_markdown(result_tables(ALONE))
    assert page.startswith("## test split, 95 % intervals\n\n|")
    assert page.count("## ") == 3
