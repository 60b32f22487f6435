import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("peak_memory.py")
MIB = 2**20


def test_memory_does_not_grow_with_the_tests(tmp_path):
    """Hundreds of megabytes of tests pass; those of one problem are held, or none."""
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=True
    )
    met, while_written, while_drawn, while_read = map(int, done.stdout.split())
    assert met > 280 * MIB
    assert while_written < 24 * MIB
    assert while_drawn < 8 * MIB
    assert while_read < 24 * MIB
