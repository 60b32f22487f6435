"""Every generation of an evaluation, kept as it comes, so that it can go on later.

    FOLDER/identity.json                  what the generations depend on
    FOLDER/greedy/part_000000.parquet     the rollout table's columns, and three more
    FOLDER/sampled/part_000000.parquet

A part is whole or absent. What a completion says depends on its own problem only, so
problems that have one need not be drawn again, and the result is the same to the bit.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from jaxgrpo.evaluation.outcomes import Answer, answers_of
from jaxgrpo.host.judge import INFRA_CLASS
from jaxgrpo.host.records import Group
from jaxgrpo.rollout_table import clean, read_part, rollout_rows, write_part
from jaxgrpo.run_folder import write_whole

_PART_NAME = re.compile(r"part_(\d{6,})\.parquet")
_OWN_COLUMNS = {"vote": pa.string(), "num_passed": pa.int32(), "num_tests": pa.int32()}
"""What the results need besides the rollout table's columns."""


def generations_folder(parent: Path, name: str, identity: Mapping[str, Any]) -> Path:
    """Returns the folder for the generations that an identity decides, made if missing.

    Args:
      parent: Where folders of evaluations are.
      name: For people; the identity tells folders apart.
      identity: All that the generations depend on, as plain data.
    """
    text = json.dumps(identity, indent=2, sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=4).hexdigest()
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "checkpoint"
    folder = parent / f"{plain}-{digest}"
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "identity.json", text + "\n")
    return folder


class Generations:
    """The kept generations of one pass over the problems.

    Args:
      folder: Of the pass, such as `.../greedy`.
      step: Updates that the policy has seen; a column of the table.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self._folder = folder
        self._step = step
        self._parts = {
            int(match[1]): path
            for path in (folder.iterdir() if folder.exists() else ())
            if (match := _PART_NAME.fullmatch(path.name))
        }

    def read(self, prompts: Mapping[str, str]) -> dict[str, tuple[Answer, ...]]:
        """Returns the kept answers, by problem.

        Rows that could not be judged for a reason of the machine's are dropped for
        good, with those of the same problem: they are to be drawn again.

        Args:
          prompts: The prompt's text of each problem that may be asked for.

        Raises:
          ValueError: A problem has another prompt by now.
        """
        answers: dict[str, tuple[Answer, ...]] = {}
        for _, path in sorted(self._parts.items()):
            table = read_part(path)
            ids, classes = (table[c].to_pylist() for c in ("problem_id", "error_class"))
            lost = {i for i, c in zip(ids, classes, strict=True) if c == INFRA_CLASS}
            if lost:
                table = table.filter(pa.array([name not in lost for name in ids]))
                write_part(table, path)
            _check_prompts(table, prompts, path)
            answers |= _answers(table)
        return {
            name: answers[clean(name)] for name in prompts if clean(name) in answers
        }

    def write(self, groups: Sequence[Group]) -> None:
        """Keeps scored groups as one more part."""
        rows = rollout_rows(self._step, groups)
        answers = [answer for group in groups for answer in answers_of(group)]
        for name, kind in _OWN_COLUMNS.items():
            values = pa.array([getattr(a, name) for a in answers], kind)
            rows = rows.append_column(name, values)
        number = max(self._parts, default=-1) + 1
        self._parts[number] = self._folder / f"part_{number:06d}.parquet"
        write_part(rows, self._parts[number])


def _check_prompts(table: pa.Table, prompts: Mapping[str, str], path: Path) -> None:
    known = {clean(name): clean(text) for name, text in prompts.items()}
    ids, texts = (table[column].to_pylist() for column in ("problem_id", "prompt"))
    for name, prompt in zip(ids, texts, strict=True):
        if known.get(name, prompt) != prompt:
            raise ValueError(
                f"{path} holds a completion of problem {name!r} whose prompt was "
                "another: the data has changed. Delete that folder, or keep "
                "generations in another one with --keep DIR."
            )


def _answers(table: pa.Table) -> dict[str, tuple[Answer, ...]]:
    """The answers of a part, by problem and in the order of samples."""
    columns = {
        "problem_id": table["problem_id"],
        "status": table["verdict"],
        "num_tokens": table["token_ids"].combine_chunks().value_lengths(),
        **{name: table[name] for name in
           ("error_class", "finish_reason", "sample", *_OWN_COLUMNS)},
    }  # fmt: skip
    found: dict[str, list[tuple[int, Answer]]] = {}
    for row in pa.table(columns).to_pylist():
        answer = Answer(
            status=row["status"] or "INFRA",
            error_class=row["error_class"],
            num_tokens=row["num_tokens"],
            is_clipped=row["finish_reason"] == "length",
            vote=row["vote"],
            num_passed=row["num_passed"],
            num_tests=row["num_tests"],
        )
        found.setdefault(row["problem_id"], []).append((row["sample"], answer))
    return {
        name: tuple(answer for _, answer in sorted(members, key=lambda m: m[0]))
        for name, members in found.items()
    }
