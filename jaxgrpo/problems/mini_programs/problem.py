"""Stored records as problems of the kind `call`."""

import ast
import json
from collections.abc import Mapping

from jaxgrpo.host.hints.layout import HEADINGS, cumulated
from jaxgrpo.host.records import HintTier, Problem, Test


def mini_problem(record: Mapping[str, object]) -> Problem:
    """Converts one record, whose texts are UTF-8 bytes."""
    text = {k: v.decode() for k, v in record.items() if isinstance(v, bytes)}
    hints: list[tuple[HintTier, str]] = [
        (tier, hint)
        for tier in HEADINGS
        for hint in levels(tier, json.loads(text[tier]))
    ]
    tests = [
        Test(kind="call", function="f", arguments=arguments, expected=value)
        for arguments, value in ast.literal_eval(text["tests"])
    ]
    return Problem(
        id=text["id"],
        kind="call",
        prompt=text["prompt"],
        reference=text["reference"],
        tests=tuple(tests),
        tags={"family": text["family"], "difficulty": text["difficulty"]},
        hints=tuple(hint for _, hint in hints),
        hint_tiers=tuple(tier for tier, _ in hints),
        columns={name: text[name] for name in ("idiomatic", "careless", "behaviour")},
    )


def levels(tier: HintTier, items: list[str]) -> list[str]:
    """Returns the hints of a tier: level l holds the tier's first l items."""
    bullet = "" if tier == "solution" else "- "
    return cumulated(tier, [f"{bullet}{item}" for item in items])
