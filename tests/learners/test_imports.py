"""What `import learners` costs a process that answers requests."""

from __future__ import annotations

import subprocess
import sys


def test_import_stays_light() -> None:
    """Neither torch nor river nor scipy nor matplotlib comes in with the package and its noise."""
    code = (
        "import sys, learners, learners.noise, learners.checks\n"
        "heavy = {'torch', 'river', 'scipy', 'matplotlib', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
