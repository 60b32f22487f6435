"""Specifications from a seed: the same everywhere, clear, and worth their words."""

import ast
import hashlib
import json
from dataclasses import astuple

import pytest

from jaxgrpo.problems.mini_programs.folds import FOLDS
from jaxgrpo.problems.mini_programs.generator import LEVELS, MAX_LINES, drafts
from jaxgrpo.problems.mini_programs.grammar import (
    ENDINGS,
    MAPPINGS,
    PARTS,
    PREDICATES,
    RANGES,
    Part,
)
from jaxgrpo.problems.mini_programs.inputs import NUM_EDGES, probes

DRAFTS = drafts(7, 0, 1000)


def all_parts() -> list[Part]:
    tables = [*PREDICATES.values(), *MAPPINGS.values(), *ENDINGS.values()]
    return [part for table in [*tables, PARTS, RANGES] for part in table.values()]


def loops_of(source: str) -> list[ast.For]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.For)]


def test_a_seed_gives_the_same_drafts_on_every_python():
    text = json.dumps([astuple(draft) for draft in DRAFTS])
    assert hashlib.sha256(text.encode()).hexdigest() == (
        "07304506ae8d0933f8a85aa4d78214dc6261bddfce9b78cb2741f35625e84774"
    )


def test_chunks_and_seeds_differ():
    assert drafts(7, 1, 50) != DRAFTS[:50]
    assert drafts(8, 0, 50) != DRAFTS[:50]


def test_a_longer_chunk_begins_with_the_shorter_one():
    assert drafts(7, 0, 50) == DRAFTS[:50]


def test_references_are_short_functions_with_one_loop_and_no_comprehension():
    for draft in DRAFTS:
        (function,) = ast.parse(draft.reference).body
        assert isinstance(function, ast.FunctionDef) and function.name == "f"
        assert 2 <= len(draft.reference.split("\n")) <= MAX_LINES
        assert len(loops_of(draft.reference)) == 1
        nodes = {type(node) for node in ast.walk(function)}
        assert not nodes & {ast.ListComp, ast.GeneratorExp, ast.DictComp}


def test_idiomatic_programs_have_no_loop_statement():
    idiomatic = [draft.idiomatic for draft in DRAFTS if draft.idiomatic]
    assert len(idiomatic) > 200
    assert not any(loops_of(source) for source in idiomatic)


def test_arguments_are_those_that_the_specification_names():
    for draft in DRAFTS:
        (function,) = ast.parse(draft.reference).body
        assert isinstance(function, ast.FunctionDef)
        names = [argument.arg for argument in function.args.args]
        assert f"a function f({', '.join(names)}) that" in draft.prompt
        assert all(len(arguments) == len(names) for arguments in draft.inputs)
        used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
        assert set(names) <= used


def test_no_slot_is_left_unfilled():
    for draft in DRAFTS:
        hints = [item for items in draft.hints.values() for item in items]
        for text in (draft.prompt, *hints):
            assert "{" not in text.replace("{}", "")
        for source in (draft.reference, draft.idiomatic, draft.careless):
            ast.parse(source)


def test_every_level_fold_and_part_appears():
    assert {draft.level for draft in DRAFTS} == set(LEVELS)
    assert {draft.family.split("_", 1)[1] for draft in DRAFTS} == set(FOLDS)
    text = " ".join(draft.prompt for draft in drafts(7, 1, 3000))
    for part in all_parts():
        for words in part.words:
            # Verbs are in the plural in places; what follows them is not.
            fixed = max(words.split("{")[0].split(" ")[1:] or [words], key=len)
            assert fixed in text, words


def test_careless_programs_differ_in_a_few_places():
    pairs = [(d.reference, d.careless) for d in DRAFTS if d.careless != d.reference]
    assert 0.5 < len(pairs) / len(DRAFTS) < 0.8
    signatures = {(a.split("\n")[0], b.split("\n")[0]) for a, b in pairs}
    assert all(a == b for a, b in signatures)


@pytest.mark.parametrize("types", ["xs", "xs k", "s", "ws", "n", "n k"])
def test_probes_are_always_the_same_and_varied(types):
    assert probes(types) == probes(types)
    assert len({repr(arguments) for arguments in probes(types)}) > 10
    values = [arguments[0] for arguments in probes(types)[:NUM_EDGES]]
    sizes = [len(v) if isinstance(v, list | str) else None for v in values]
    assert sizes == ([None] * 3 if types[0] == "n" else [0, 1, 2])
