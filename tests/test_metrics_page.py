"""docs/metrics.md: every metric has a row there, and every row is a metric."""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from jaxgrpo.glossary import GLOSSARY, definition

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "metrics.md"
EVERY_STEP = "every step"
_ROW = re.compile(r"\| `([^`]+)` \| ([^|]+) \| ([^|]+) \| (.+) \|")


class Row(NamedTuple):
    name: str
    unit: str
    written: str
    meaning: str


def rows_of_page() -> list[Row]:
    text = PAGE.read_text(encoding="utf-8").split("## Other trainers' names")[0]
    found = [_ROW.fullmatch(line) for line in text.splitlines()]
    return [Row(*map(str.strip, match.groups())) for match in found if match]


ROWS = rows_of_page()


def test_every_metric_of_the_glossary_has_a_row():
    documented = {row.name for row in ROWS}
    missing = [
        f"| `{name}` | UNIT | WHEN | {meaning} |"
        for name, meaning in GLOSSARY.items()
        if name not in documented
    ]
    assert not missing, "add to docs/metrics.md:\n" + "\n".join(missing)


def test_every_row_is_a_metric_of_the_glossary():
    strangers = [row.name for row in ROWS if row.name not in GLOSSARY]
    assert not strangers, f"remove from docs/metrics.md: {strangers}"
    assert len({row.name for row in ROWS}) == len(ROWS)


def test_no_metric_is_defined_that_nothing_writes():
    # Names are put together from parts: the longest fixed one must stand in the code.
    files = [*(REPOSITORY / "jaxgrpo").rglob("*.py")]
    code = "\n".join(p.read_text() for p in files if p.name != "glossary.py")
    absent = []
    for name in GLOSSARY:
        plain = re.sub(r"^(eval|eval_se|tail)/", "", name)
        fixed = max(re.split(r"\{\w+\}", plain), key=len)
        parts = [part for part in re.split("/", fixed) if part]
        if not all(part in code for part in parts):
            absent.append(name)
    assert not absent, f"remove from GLOSSARY and docs/metrics.md: {absent}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rows_say_what_the_glossary_says(row):
    assert row.unit and row.written
    assert row.meaning.replace("\\|", "|") == GLOSSARY[row.name]


def test_examples_of_names_find_their_row():
    assert definition("eval/pass@8") == GLOSSARY["eval/pass@{k}"]
    assert definition("tail/error_class/wrong_value") is not None
