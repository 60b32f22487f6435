from jaxgrpo.report.evaluation_table import evaluation_table, markdown


def evaluation(exact: float, **others: float) -> dict:
    shares = {"exact_match": exact, "error_class/exact": exact, **others}
    estimates = {name: {"value": v, "se": 0.011} for name, v in shares.items()}
    return {"num_problems": 2000, **estimates}


def row(table, label: str) -> tuple[str, ...]:
    (found,) = [row[1:] for row in table.rows if row[0] == label]
    return found


def test_values_come_with_standard_errors_and_the_change():
    table = evaluation_table(
        {"before": evaluation(0.17), "after": evaluation(0.431), "ref": evaluation(0.5)}
    )
    assert table.header == ("", "before", "after", "change", "ref")
    assert row(table, "exact match, greedy") == (
        "17.0 ± 1.1 %",
        "43.1 ± 1.1 %",
        "+26.1",
        "50.0 ± 1.1 %",
    )


def test_there_is_no_change_without_a_before():
    table = evaluation_table({"after": evaluation(0.5), "reference": evaluation(0.5)})
    assert table.header == ("", "after", "reference")


def test_a_metric_that_one_evaluation_lacks_is_a_dash():
    before, after = evaluation(0.1), evaluation(0.2, **{"pass@8": 0.5})
    table = evaluation_table({"before": before, "after": after})
    assert row(table, "pass@8") == ("-", "50.0 ± 1.1 %", "")


def test_lengths_are_not_percent():
    table = evaluation_table({"after": evaluation(0.5, mean_length=6.414)})
    assert row(table, "mean length, tokens") == ("6.41 ± 0.01",)


def test_counts_come_last_and_exact_match_once():
    table = evaluation_table({"after": evaluation(0.5, **{"pass@1": 0.5})})
    assert [cells[0] for cells in table.rows] == [
        "exact match, greedy",
        "pass@1",
        "problems",
    ]


def test_markdown_lines_have_one_width():
    table = evaluation_table({"before": evaluation(0.17), "after": evaluation(1.0)})
    lines = markdown(table).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[0].split("|")[2].strip() == "before"
    assert set(lines[1]) <= set("|:- ")


def test_an_interval_takes_the_place_of_the_standard_error():
    entry = {"value": 0.188, "se": 0.01, "low": 0.17, "high": 0.207}
    table = evaluation_table({"a": {"num_problems": 9, "exact_match": entry}})
    assert row(table, "exact match, greedy") == ("18.8 [17.0, 20.7] %",)


def test_programs_have_their_own_classes_and_no_exact_match():
    entry = {"value": 0.5, "se": 0.1}
    table = evaluation_table(
        {
            "a": {
                "num_problems": 4, "exact_match": entry, "tests_passed": entry,
                "error_class/passed": entry, "error_class/syntax_error": entry,
            }
        }
    )  # fmt: skip
    assert [cells[0] for cells in table.rows] == [
        "all tests passed, greedy", "- syntax error", "tests passed, greedy",
        "problems",
    ]  # fmt: skip


def test_a_class_that_one_evaluation_lacks_has_share_zero():
    entry = {"value": 0.5, "se": 0.1}
    classes = ({"error_class/timeout": entry}, {"error_class/crash": entry})
    table = evaluation_table(dict(zip("ab", classes, strict=True)))
    assert row(table, "- timeout") == ("50.0 ± 10.0 %", "0.0 ± 0.0 %")


def test_a_metric_without_a_value_is_a_dash():
    nothing = {"value": None, "se": None}
    both = {"before": {"pass@8": nothing}, "after": {"pass@8": nothing}}
    assert row(evaluation_table(both), "pass@8") == ("-", "-", "")
