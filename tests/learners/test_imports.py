"""What `import learners` costs a process that answers requests."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from types import ModuleType

import pytest

import learners
import learners.neighbors


def test_import_stays_light() -> None:
    """Neither torch nor river nor scipy nor matplotlib comes in with the package and its noise."""
    code = (
        "import sys, learners, learners.noise, learners.checks\n"
        "heavy = {'torch', 'river', 'scipy', 'matplotlib', 'pandas'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("package", [learners, learners.neighbors])
def test_types_that_signatures_mention_can_be_imported(package: ModuleType) -> None:
    """Whoever writes a function around a learner can say what it takes, by the public names.

    Of methods for use inside, which take what they do not check, this is not asked.
    """
    inside = {"insert_sound", "insert_and_find", "propose", "propose_among"}
    known = {*learners.__all__, *learners.neighbors.__all__, "NDArray"}
    of_ours = {"BoolArray", "FloatArray", "Found", "Observer", "Proposals", "Rows", "Slots"}
    of_ours |= {"State", "StateValue"}
    for name in package.__all__:
        for each, member in inspect.getmembers(getattr(package, name), inspect.isfunction):
            if each not in inside and not each.startswith("_"):
                words = set(re.findall(r"\w+", str(member.__annotations__)))
                assert words & of_ours <= known, f"{name}.{each}"
