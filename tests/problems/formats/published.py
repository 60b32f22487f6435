"""A row or two in each published form, made by hand, with solutions that pass."""

import base64
import json
import pickle
import zlib
from typing import Any

Row = dict[str, Any]


def packed(tests: object) -> str:
    """Private tests as LiveCodeBench's lite release has them."""
    text = pickle.dumps(json.dumps(tests))
    return base64.b64encode(zlib.compress(text)).decode()


HUMANEVAL: Row = {
    "task_id": "HumanEval/7",
    "prompt": (
        "def twice(x):\n    return 2 * x\n\n\n"
        "def add(a: int, b: int) -> int:\n"
        '    """Add.\n    >>> add(1, 2)\n    3\n    """\n'
    ),
    "entry_point": "add",
    "canonical_solution": "    return a + b\n",
    "test": (
        "METADATA = {'author': 'jt'}\n\ndef check(candidate):\n"
        "    assert candidate(1, 2) == 3\n    assert candidate(2, 2) == twice(2)\n"
    ),
}
HUMANEVAL_PLUS: Row = {
    "task_id": "HumanEval/4",
    "prompt": 'def half(x):\n    """Halve."""\n',
    "entry_point": "half",
    "canonical_solution": "    return x / 2\n",
    "contract": "\n    assert isinstance(x, int)\n",
    "base_input": [[1], [3]],
    "plus_input": [[10], [0]],
    "atol": 0,
}
FIND_ZERO: Row = {
    "task_id": "HumanEval/32",
    "prompt": "def find_zero(xs: list):\n",
    "entry_point": "find_zero",
    "canonical_solution": "    return -xs[0] / xs[1]\n",
    "contract": "",
    "base_input": [[[1, 2]], [[-3, 3]]],
    "plus_input": [],
    "atol": 0.0001,
}
MBPP: Row = {
    "task_id": 602,
    "text": "Write a function to add.",
    "code": "def add(a, b):\r\n    return a + b",
    "test_list": ["assert add(1, 2) == 3", "assert add(ONE, 1) == 2"],
    "test_setup_code": "ONE = 1",
    "challenge_test_list": ["assert add(-1, 1) == 0"],
}
MBPP_SANITIZED: Row = {
    "source_file": "Benchmark Questions Verification V2.ipynb",
    "task_id": 20,
    "prompt": "Write a function to take a root.",
    "code": "def root(x):\n    return x ** 0.5",
    "test_imports": ["import math"],
    "test_list": ["assert math.isclose(root(2), math.sqrt(2))"],
}
MBPP_PLUS: Row = {
    "task_id": "Mbpp/2",
    "prompt": (
        '"""\nFind shared elements.\n'
        'assert similar_elements((1, 2), (2,)) == (2,)\n"""\n'
    ),
    "entry_point": "similar_elements",
    "canonical_solution": (
        "\ndef similar_elements(first, second):\n"
        "    assert type(first) is type(second) is tuple\n"
        "    return tuple(set(first) & set(second))\n"
    ),
    "contract": "",
    "base_input": [[[3, 4, 5, 6], [5, 7, 4, 10]]],
    "plus_input": [[[], [1]]],
    "atol": 0,
}
FINDS_MATCH: Row = {
    "task_id": "Mbpp/434",
    "prompt": '"""\nFind an a.\n"""\n',
    "entry_point": "text_match_three",
    "canonical_solution": (
        "\nimport re\ndef text_match_three(text):\n"
        "    return re.search('ab{3}', text)\n"
    ),
    "base_input": [["abbb"], ["ab"]],
    "plus_input": [],
    "atol": 0,
}
CRUXEVAL: Row = {
    "code": "def f(nums):\n    return [n for n in nums if n > 1]",
    "input": "[1, 2, 3]",
    "output": "[2, 3]",
    "id": "sample_5",
}
CRUXEVAL_STEPS: Row = CRUXEVAL | {
    "code": "def f(nums):\n    kept = [n for n in nums if n > 1]\n    return kept",
}
CRUXEVAL_EXPRESSION: Row = {
    "code": "A = 'A'\ndef f(text, n):\n    return text * n",
    "input": "''.join([A] * 2), n=dict(two=2)['two']",
    "output": "'AAAA'",
    "id": "sample_6",
}
LCB_STDIN: Row = {
    "question_title": "Sum",
    "question_content": "Print the sum.",
    "platform": "atcoder",
    "question_id": "abc300_a",
    "contest_id": "abc300",
    "contest_date": "2023-04-29T00:00:00",
    "starter_code": "",
    "difficulty": "easy",
    "public_test_cases": json.dumps(
        [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]
    ),
    "private_test_cases": packed(
        [{"input": "5 5\n", "output": "10\n", "testtype": "stdin"}]
    ),
    "metadata": "{}",
}
LCB_FUNCTIONAL: Row = LCB_STDIN | {
    "platform": "leetcode",
    "question_id": "2999",
    "contest_date": "2024-05-04T00:00:00",
    "starter_code": (
        "class Solution:\n    def pick(self, xs: List[int], k: int) -> List[int]:\n"
        "        "
    ),
    "difficulty": "hard",
    "public_test_cases": json.dumps(
        [{"input": "[1, 2, 3]\n2", "output": "[1, 2]", "testtype": "functional"}]
    ),
    "private_test_cases": json.dumps(
        [{"input": "[]\n0", "output": "[]", "testtype": "functional"}]
    ),
    "metadata": json.dumps({"func_name": "pick"}),
}
APPS_STDIN: Row = {
    "problem_id": 12,
    "question": "Print the lines in reverse.",
    "solutions": json.dumps(
        ["import sys\nprint('\\n'.join(reversed(sys.stdin.read().split('\\n'))))"]
    ),
    "input_output": json.dumps(
        {"inputs": ["a\nb", ["c", "d"]], "outputs": ["b\na\n", [["d", "c"]]]}
    ),
    "difficulty": "interview",
    "url": "https://codeforces.com/problemset/problem/1/A",
    "starter_code": "",
}
APPS_CALL: Row = APPS_STDIN | {
    "problem_id": 2501,
    "question": "Count letters.",
    "solutions": json.dumps(["def count(words, n):\n    return {n: len(words[n])}"]),
    "input_output": json.dumps(
        {
            "fn_name": "count",
            "inputs": [[{"1": "ab"}, 1], [{"2": "c"}, 2]],
            "outputs": [[{"1": 2}], {"2": 1}],
        }
    ),
    "starter_code": "\ndef count(words, n):\n\t",
}
APPS_METHOD: Row = APPS_STDIN | {
    "problem_id": 3000,
    "solutions": json.dumps(
        ["class Solution:\n    def neg(self, x):\n        return -x"]
    ),
    "input_output": json.dumps({"fn_name": "neg", "inputs": [[1]], "outputs": [-1]}),
    "starter_code": "class Solution:\n    def neg(self, x: int) -> int:\n        ",
}
TACO: Row = {
    "question": "Double it.",
    "solutions": json.dumps(["print(2 * int(input()))"]),
    "starter_code": "",
    "input_output": json.dumps({"inputs": ["2\n"], "outputs": ["4\n"]}),
    "difficulty": "MEDIUM_HARD",
    "raw_tags": "['math']",
    "name": "Double",
    "source": "codeforces",
    "tags": "['Mathematics']",
    "skill_types": "[]",
    "url": "https://codeforces.com/problemset/problem/1/B",
    "Expected Auxiliary Space": None,
    "time_limit": "2.0 seconds",
    "date": "2012-04-05",
    "picture_num": None,
    "memory_limit": "256.0 megabytes",
    "Expected Time Complexity": None,
}
CODECONTESTS: Row = {
    "name": "1_A. Theatre Square",
    "description": "Divide.",
    "public_tests": {"input": ["1 4\n"], "output": ["0.25\n"]},
    "private_tests": {"input": [], "output": []},
    "generated_tests": {"input": ["3 4\n"], "output": ["0.750000\n"]},
    "source": 2,
    "difficulty": 7,
    "solutions": {
        "language": [2, 3],
        "solution": ["int main() {}", "a, b = map(int, input().split())\nprint(a / b)"],
    },
    "incorrect_solutions": {"language": [], "solution": []},
    "cf_contest_id": 1,
    "cf_index": "A",
    "cf_points": 0.0,
    "cf_rating": 1000,
    "cf_tags": ["math"],
    "is_description_translated": False,
    "untranslated_description": "",
    "time_limit": {"seconds": 1, "nanos": 500000000},
    "memory_limit_bytes": 64000000,
    "input_file": "",
    "output_file": "",
}
DEEPCODER_PRIME: Row = {
    "problem": "Add one to it.",
    "solutions": ["```python\ndef one(x):\n    return x + 1\n```"],
    "tests": json.dumps(
        [
            {"fn_name": "one", "input": [1], "output": 2, "type": "function_call"},
            {"fn_name": "one", "input": "[2]", "output": "3", "type": "function_call"},
        ]
    ),
}
DEEPCODER_TACO: Row = {
    "problem": "Print it.",
    "solutions": ["print(input())"],
    "tests": json.dumps({"inputs": ["7\n"], "outputs": ["7\n"]}),
}
DEEPCODER_LCB: Row = {
    "problem": "Negate it.",
    "starter_code": "class Solution:\n    def neg(self, x: int) -> int:\n        ",
    "tests": json.dumps(
        [
            {
                "input": "5",
                "output": "-5",
                "testtype": "functional",
                "metadata": {"func_name": "neg"},
            }
        ]
    ),
    "metadata": {"func_name": "neg"},
}
VERL: Row = {
    "data_source": "primeintellect",
    "prompt": [
        {"role": "system", "content": "You write programs."},
        {"role": "user", "content": "Print the sum of two numbers."},
    ],
    "ability": "code",
    "reward_model": {
        "style": "rule",
        "ground_truth": json.dumps({"inputs": ["1 2\n"], "outputs": ["3\n"]}),
    },
    "extra_info": {"split": "train", "index": 0},
}
PRIMEINTELLECT: Row = {
    "source": "apps",
    "task_type": "verifiable_code",
    "in_source_id": "4530",
    "prompt": "Solve: print the sum.",
    "gold_standard_solution": "```python\nprint(sum(map(int, input().split())))\n```",
    "problem_id": "vfc_0",
    "metadata": '{"difficulty": "introductory"}',
    "verification_info": json.dumps(
        {
            "language": "python",
            "test_cases": [
                {
                    "fn_name": None,
                    "input": "1 2\n",
                    "output": "3\n",
                    "type": "stdin_stdout",
                }
            ],
        }
    ),
}
KODCODE: Row = {
    "version": "v1.0",
    "style": "instruct",
    "subset": "Leetcode",
    "question_id": "Leetcode_1_I",
    "question": "Average a list; refuse an empty one.",
    "solution": (
        "def mean(xs):\n    if not xs:\n        raise ValueError('empty')\n"
        "    return sum(xs) / len(xs)"
    ),
    "test": (
        "import pytest\nfrom solution import mean as average\n\nHALF = 0.5\n\n"
        'def test_some():\n    """Doc."""\n    assert average([0, 1]) == HALF\n\n'
        "def test_close():\n"
        "    assert average([1, 1, 2]) == pytest.approx(1.3333333)\n\n"
        '@pytest.mark.parametrize("xs, wanted", [([1], 1), ([2, 4], 3)])\n'
        "def test_more(xs, wanted):\n    assert average(xs) == wanted\n\n"
        "def test_empty():\n"
        "    with pytest.raises(ValueError):\n        average([])\n\n"
        'if __name__ == "__main__":\n    pytest.main()\n'
    ),
    "test_info": [
        {
            "docstring": "",
            "function_declaration": "def mean(xs):",
            "function_name": "mean",
            "parameter_list": "(xs)",
        }
    ],
    "gpt_difficulty": "easy",
    "gpt_pass_percentage": 0.9,
}
CODEIO: Row = {
    "task_description": "Given a number, what is its double?",
    "input_output_spec": "Input:\n  `x` (int)\n\nOutput:\n  `return` (dict)",
    "code_sample": "def main_solution(x):\n    return {'double': 2 * x}",
    "input_generator": (
        "def generate_inputs(rng: Random) -> dict:\n"
        "    return {'x': rng.randint(0, 99)}"
    ),
    "difficulty": 3,
}
CODEIO_RANDOM: Row = CODEIO | {
    "code_sample": "import random\ndef main_solution(x):\n    return random.random()",
}

ROWS: dict[str, list[Row]] = {
    "humaneval": [HUMANEVAL],
    "humaneval_plus": [HUMANEVAL_PLUS, FIND_ZERO],
    "mbpp": [MBPP],
    "mbpp_sanitized": [MBPP_SANITIZED],
    "mbpp_plus": [MBPP_PLUS, FINDS_MATCH],
    "cruxeval": [CRUXEVAL],
    "cruxeval_input": [CRUXEVAL, CRUXEVAL_EXPRESSION],
    "cruxeval_trace": [CRUXEVAL],
    "cruxeval_steps": [CRUXEVAL_STEPS],
    "codeio": [CODEIO],
    "livecodebench": [LCB_STDIN, LCB_FUNCTIONAL],
    "apps": [APPS_STDIN, APPS_CALL, APPS_METHOD],
    "taco": [TACO],
    "codecontests": [CODECONTESTS],
    "deepcoder": [DEEPCODER_PRIME, DEEPCODER_TACO, DEEPCODER_LCB, VERL],
    "primeintellect": [PRIMEINTELLECT],
    "kodcode": [KODCODE],
}
"""By format; `file` has no form of its own."""
WITHOUT_SOLUTION: dict[str, str] = {
    "livecodebench/abc300_a": "print(sum(map(int, input().split())))",
    "livecodebench/2999": (
        "class Solution:\n    def pick(self, xs, k):\n        return tuple(xs[:k])"
    ),
    "Negate it.": "class Solution:\n    def neg(self, x):\n        return -x",
    "Print the sum of two numbers.": "print(sum(map(int, input().split())))",
}
"""Programs that solve problems whose rows bring none, by id or beginning of prompt."""
REQUIRED: dict[str, str] = {
    "humaneval": "task_id prompt entry_point canonical_solution test",
    "humaneval_plus": "task_id prompt entry_point canonical_solution base_input",
    "mbpp": "task_id text code test_list",
    "mbpp_sanitized": "task_id prompt code test_list",
    "mbpp_plus": "task_id prompt entry_point canonical_solution base_input",
    "cruxeval": "id code input output",
    "cruxeval_input": "id code input output",
    "cruxeval_trace": "id code input output",
    "cruxeval_steps": "id code input output",
    "codeio": "task_description input_output_spec code_sample input_generator",
    "livecodebench": (
        "question_content question_id platform difficulty contest_date "
        "public_test_cases private_test_cases"
    ),
    "apps": "problem_id question input_output",
    "taco": "question input_output",
    "codecontests": "name description",
    "deepcoder": "problem tests",
    "primeintellect": "problem_id prompt verification_info",
    "kodcode": "question_id question solution test",
}
"""Fields without which a row is no problem."""
