"""What the comparison is held to."""

from pathlib import Path

from benchmarks.versus_report import judge
from benchmarks.versus_results import Key, Results, Setting
from benchmarks.versus_streams import Curve


def test_each_horizon_has_a_mean_of_its_own(tmp_path: Path) -> None:
    """A learner behind after 20,000 rounds and ahead after 60,000 met the target in one mean."""
    results = Results(tmp_path, 1)
    for noise in (".15/.15", ".2/.4"):
        setting = Setting("usps", noise)
        results.add(Key(setting, 0, "vw --squarecb"), Curve([100] * 20 + [300] * 40, 1.0, 0.0))
        results.add(Key(setting, 0, "forward_softmax"), Curve([90] * 20 + [100] * 40, 1.0, 0.0))
    targets = judge(results, ["usps"], (20_000, 60_000), 1.0)
    assert [(each.value, each.met) for each in targets if "mean of 2" in each.name] == [
        (0.9, False),
        (0.414, True),
    ]
