import ast
import hashlib
import json
from dataclasses import astuple

from jaxgrpo.problems.output_prediction.generator import LEVELS, drafts
from jaxgrpo.problems.output_prediction.grammar import (
    ARGUMENT_WEIGHTS,
    CONDITIONS,
    END,
    EXPRESSIONS,
    LOOPS,
    MUTATIONS,
    NAMES,
)

DRAFTS = drafts(7, 0, 1000)


def test_a_seed_gives_the_same_drafts_on_every_python():
    text = json.dumps([astuple(draft) for draft in DRAFTS])
    assert hashlib.sha256(text.encode()).hexdigest() == (
        "c905217c9193a0af2ccaf01da3f7dc8d9cc2e024818cba5f984abf6d34e593f0"
    )


def test_chunks_and_seeds_differ():
    assert drafts(7, 1, 50) != DRAFTS[:50]
    assert drafts(8, 0, 50) != DRAFTS[:50]


def test_a_longer_chunk_begins_with_the_shorter_one():
    assert drafts(7, 0, 50) == DRAFTS[:50]


def test_drafts_are_one_function_named_f_and_a_call_of_it():
    for draft in DRAFTS:
        (function,) = ast.parse(draft.code).body
        assert isinstance(function, ast.FunctionDef) and function.name == "f"
        call = ast.parse(draft.call, mode="eval").body
        assert isinstance(call, ast.Call) and ast.unparse(call.func) == "f"


def test_indentation_is_one_space_a_level():
    for draft in DRAFTS:
        lines = draft.code.split("\n")
        assert all(line[0] == " " and not line.endswith(" ") for line in lines[1:])
        deeper = [line for line in lines if line.startswith("  ")]
        assert all(len(line) - len(line.lstrip()) <= 3 for line in deeper)


def test_every_level_and_nearly_every_kind_of_statement_appears():
    assert {draft.level for draft in DRAFTS} == set(LEVELS)
    nodes = {type(n) for draft in DRAFTS for n in ast.walk(ast.parse(draft.code))}
    assert nodes >= {
        ast.For, ast.While, ast.If, ast.ListComp, ast.DictComp, ast.Slice,
        ast.AugAssign, ast.Dict, ast.Tuple, ast.BinOp, ast.Compare, ast.Break,
    }  # fmt: skip


def test_all_tables_know_the_same_types():
    types = set(ARGUMENT_WEIGHTS)
    for table in (NAMES, EXPRESSIONS, MUTATIONS, LOOPS, CONDITIONS):
        assert set(table) == types
    results = {kind for rows in EXPRESSIONS.values() for _, kind, _ in rows}
    results |= {kind for rows in LOOPS.values() for _, kind in rows}
    assert results <= types | {END}


def test_names_belong_to_one_type_and_not_to_loops():
    names = "".join(NAMES.values())
    assert len(set(names)) == len(names)
    assert not set(names) & set("cfikv")
