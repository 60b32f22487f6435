"""The kinds of failure: a closed vocabulary, from which metrics and tables take names.

The judge of output prediction has four of its own (`literal.py`). All others are here,
each with the status that goes with it where the completion is a program. Where it is a
literal, those of NO_ANSWER may come too, with status WA.
"""

PASSED = "passed"
WRONG_ANSWER = "wrong_answer"
NOT_PLAIN_DATA = "not_plain_data"
CHECKER_FAILED = "checker_failed"
MISSING_FUNCTION = "missing_function"
EXCEPTION = "exception"
EXIT = "exit"
CRASH = "crash"
SYNTAX_ERROR = "syntax_error"
TIMEOUT = "timeout"
MEMORY_LIMIT = "memory_limit"
OUTPUT_LIMIT = "output_limit"
UNFINISHED_THINKING = "unfinished_thinking"
NO_ANSWER_MARKER = "no_answer_marker"
UNCLOSED_ANSWER = "unclosed_answer"
SEVERAL_ANSWERS = "several_answers"
NO_CODE_BLOCK = "no_code_block"
UNCLOSED_CODE_BLOCK = "unclosed_code_block"
SEVERAL_CODE_BLOCKS = "several_code_blocks"
EMPTY_CODE = "empty_code"
DOES_NOT_PARSE = "does_not_parse"
INFRA = "infra"
NO_TESTS = "no_tests"
UNTRUSTED_ASSERTS = "untrusted_asserts"

ERROR_CLASSES: dict[str, str] = {
    PASSED: "OK: every test passed",
    WRONG_ANSWER: "WA: output or value is not the expected one, or an assert failed",
    NOT_PLAIN_DATA: "WA: the value returned is an object, a generator, a subclass ...",
    CHECKER_FAILED: "WA: the problem's checker failed on the answer",
    MISSING_FUNCTION: "RE: the function that is called does not exist",
    EXCEPTION: "RE: uncaught exception",
    EXIT: "RE: exit inside a call, or with a status other than 0",
    CRASH: "RE: the process ended by a signal, or broke the protocol of calls",
    SYNTAX_ERROR: "CE: Python does not compile the code",
    TIMEOUT: "TLE: CPU or wall-clock limit",
    MEMORY_LIMIT: "MLE: memory limit",
    OUTPUT_LIMIT: "OLE: output or value too large",
    UNFINISHED_THINKING: "CE: the thinking was not brought to an end",
    NO_ANSWER_MARKER: "CE: nothing marks where the answer begins",
    UNCLOSED_ANSWER: "CE: nothing marks where the answer ends",
    SEVERAL_ANSWERS: "CE: more than one marked answer where one is asked for",
    NO_CODE_BLOCK: "CE: no fenced block of Python",
    UNCLOSED_CODE_BLOCK: "CE: the only fenced block was not closed",
    SEVERAL_CODE_BLOCKS: "CE: more than one fenced block where one is asked for",
    EMPTY_CODE: "CE: nothing but white space",
    DOES_NOT_PARSE: "CE: not a Python program (where that is checked before running)",
    INFRA: "INFRA: no decision, through no fault of the completion",
    NO_TESTS: "INFRA: the problem has no test that could fail",
    UNTRUSTED_ASSERTS: "INFRA: the asserts cannot be run outside the program's process",
}
"""Status and meaning of each class that the judge of programs gives."""

NO_ANSWER = (
    UNFINISHED_THINKING,
    NO_ANSWER_MARKER,
    UNCLOSED_ANSWER,
    SEVERAL_ANSWERS,
    NO_CODE_BLOCK,
    UNCLOSED_CODE_BLOCK,
    SEVERAL_CODE_BLOCKS,
)
"""Of completions in which no answer was found, whatever it should have been."""
