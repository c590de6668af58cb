"""Tables, JSON values and pictures of a replay."""

import json
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.transforms import BboxBase
from numpy.typing import NDArray
from rich.console import Console

from clients.replay import report
from clients.replay.datasets import Dataset
from clients.replay.report import MOST_INSIDE, as_json, plot, spaced_rounds, table
from clients.replay.run import Track
from clients.replay.stream import ClickStream, Noise

Scale: TypeAlias = Literal["log", "linear"]

DATA = Dataset("toy", np.zeros((2, 1), dtype=np.float32), np.array([0, 1]), ("a", "b"))


def track(n_rounds: int, period: int) -> Track:
    """Return a record with one error in every `period` rounds."""
    result = Track(n_rounds)
    for number in range(n_rounds):
        result.record(wrong=number % period == 0, wrong_greedy=False)
    return result


def test_the_table_shows_each_learner() -> None:
    """The numbers that a user reads are the track's."""
    console = Console(width=100, record=True, quiet=False, file=None)
    with console.capture() as capture:
        console.print(table({"one": track(1000, 4), "none": Track(5)}, window=100))
    text = capture.get()
    assert "25.0 %" in text
    assert "last 100 rounds" in text
    assert next(line for line in text.splitlines() if "none" in line).count("- ") == 3


def test_learners_are_named_in_full() -> None:
    """In a terminal of 80 columns, too, where a name of a kind and its options has no room."""
    names = [f"rcnbf:gamma=.05,rho_0=.15,rho_1=.{number}[b]" for number in (1, 2)]
    console = Console(width=80)
    with console.capture() as capture:
        console.print(table({name: track(1000, 4) for name in names}, window=1000))
    cells = [line.split("│")[1].strip() for line in capture.get().splitlines() if "│" in line]
    assert "".join(cells) == "".join(names)


def test_json_is_complete_and_plain() -> None:
    """A result can be repeated from its JSON: data, seed, noise, options and curves are there."""
    stream = ClickStream(DATA, horizon=1000, seed=9, noise=Noise(rho_0=(0.1, 0.2), drop=0.5))
    result = json.loads(
        json.dumps(as_json(stream, {"one": track(1000, 4)}, window=10, elapsed_s=2.0))
    )
    assert result["noise"] == {
        "rho_0": [0.1, 0.2],
        "rho_1": [0.0, 0.0],
        "delay": [0, 0],
        "shuffle": 0,
        "drop": 0.5,
        "duplicate": 0.0,
    }
    assert (result["data"], result["seed"], result["horizon"]) == ("toy", 9, 1000)
    assert result["rounds_per_s"] == 500
    (learner,) = result["learners"]
    assert learner["name"] == "one"
    assert learner["error"] == learner["curve"][-1] == 0.25
    assert result["curve_rounds"][-1] == 1000


@pytest.mark.parametrize("done", [1, 2, 99, 200, 201, 5_000_000])
@pytest.mark.parametrize("scale", ["log", "linear"])
def test_curve_points_are_rounds(done: int, scale: Scale) -> None:
    """The points lie within the replay, ascend, end at its end, and are not too many."""
    rounds = spaced_rounds(done, scale)
    assert rounds[-1] == done
    assert rounds[0] >= 1
    assert (np.diff(rounds) > 0).all()
    assert len(rounds) <= 200
    if done > 1000:
        assert (rounds[len(rounds) // 2] < done / 10) == (scale == "log")


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_the_picture_has_the_curves(tmp_path: Path, scale: Scale) -> None:
    """A PNG is written in which every learner's colour can be seen."""
    path = tmp_path / "errors.png"
    tracks = {"one": track(1000, 4), "two": track(1000, 2)}
    plot({"left": tracks, "right": tracks}, path, title="Test", scale=scale)
    image = np.rint(imread(path)[..., :3] * 255).astype(int)
    assert image.shape[1] > image.shape[0] > 500
    for colour in ((0xD5, 0x5E, 0x00), (0x00, 0x72, 0xB2)):
        assert (image == colour).all(axis=-1).sum() > 500


@pytest.mark.parametrize("scale", ["log", "linear"])
@pytest.mark.parametrize("n_rounds", [1, 300])
def test_a_learner_without_errors_can_be_drawn(tmp_path: Path, scale: Scale, n_rounds: int) -> None:
    """The best result there is does not break the picture."""
    perfect = Track(n_rounds)
    for _ in range(n_rounds):
        perfect.record(wrong=False, wrong_greedy=False)
    plot({"all": {"perfect": perfect}}, tmp_path / "x.png", title="Test", scale=scale)
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_names_of_many_learners_stand_beside_their_curves(tmp_path: Path) -> None:
    """Names and curves on top of each other can neither be read."""
    wide, narrow = tmp_path / "wide.png", tmp_path / "narrow.png"
    tracks = {f"banditron:gamma=.{number}": track(1000, 2) for number in range(MOST_INSIDE + 1)}
    plot({"all": tracks}, wide, title="Test")
    del tracks["banditron:gamma=.0"]
    plot({"all": tracks}, narrow, title="Test")
    images = [np.rint(imread(path)[..., :3] * 255).astype(int) for path in (narrow, wide)]
    assert images[1].shape[1] > images[0].shape[1] + 400
    first = (images[1] == (0xD5, 0x5E, 0x00)).all(axis=-1)
    assert first[:, -500:].sum() > 100


def test_rounds_of_a_short_replay_are_written_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One axis had 100, and then 2 times ten squared."""
    drawn: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: drawn.append(self))
    plot({"all": {"one": track(300, 2)}}, tmp_path / "x.png", title="Test")
    drawn[0].canvas.draw()
    labels = drawn[0].axes[0].get_xticklabels(which="both")
    assert {"100", "200", "300"} <= {label.get_text() for label in labels}


def test_an_axis_ends_where_errors_do(tmp_path: Path) -> None:
    """A learner that is always wrong has its curve at the top, and not in the middle."""
    plot({"all": {"wrong": track(60, 1)}}, tmp_path / "x.png", title="Test")
    image = np.rint(imread(tmp_path / "x.png")[..., :3] * 255).astype(int)
    rows = np.flatnonzero((image == (0xD5, 0x5E, 0x00)).all(axis=-1).sum(axis=1) > 400)
    assert rows.max() < image.shape[0] / 5


def _drawn(panels: dict[str, dict[str, Track]], *, title: str, scale: Scale = "log") -> Figure:
    """Return the picture instead of writing it."""
    with pytest.MonkeyPatch.context() as patch:
        drawn: list[Figure] = []
        patch.setattr(Figure, "savefig", lambda self, *_, **__: drawn.append(self))
        plot(panels, Path("unwritten.png"), title=title, scale=scale)
    drawn[0].canvas.draw()
    return drawn[0]


@pytest.mark.parametrize("panels", [1, 2])
def test_titles_are_seen_in_full(panels: int) -> None:
    """A long name of a file, or one rate for each label, ran out of the picture on both sides."""
    rates = "false clicks " + ",".join(["0.125"] * 26)
    each = {f"{rates}{number}": {"one": track(300, 2)} for number in range(panels)}
    figure = _drawn(each, title="of_my_clicks_" * 9)
    titles = [figure.texts[0], *(axes.title for axes in figure.axes)]
    for text in titles:
        extent = text.get_window_extent()
        assert figure.bbox.x0 <= extent.x0 < extent.x1 <= figure.bbox.x1
    assert titles[0].get_text().replace("\n", "") == "of_my_clicks_" * 9


def test_a_dollar_begins_no_formula() -> None:
    """A file called so ended the replay after its last round, or lost its name."""
    name = r"$\no{$ 5$"
    figure = _drawn({name: {name: track(300, 2)}}, title=name)
    (label,) = figure.axes[0].get_legend_handles_labels()[1]
    for text in (figure.texts[0].get_text(), figure.axes[0].get_title(), label):
        assert text.removesuffix(": 50.0 %") == r"\$\no{\$ 5\$"


def test_no_name_lies_on_a_curve() -> None:
    """On linear axes the lower left, which is free on logarithmic ones, is where curves fall."""
    falling = Track(1000)
    for number in range(1000):
        falling.record(wrong=number < 100, wrong_greedy=False)
    tracks = {"falling": falling, "wrong": track(1000, 1)}
    curves, names = _of(_drawn({"all": tracks}, title="Test", scale="linear"))
    assert names.x0 > curves[:, 0].max()
    # On logarithmic ones it is not, where a learner is right from the start.
    late = Track(1000)
    for number in range(1000):
        late.record(wrong=number > 400, wrong_greedy=False)
    tracks = {f"late {number}": late for number in range(MOST_INSIDE)}
    curves, names = _of(_drawn({"all": tracks}, title="Test"))
    assert not any(names.contains(*point) for point in curves)


def _of(figure: Figure) -> tuple[NDArray[np.float64], BboxBase]:
    """Return the points of all curves of a picture, and where the names are."""
    (axes,) = figure.axes
    legend = axes.get_legend()
    assert legend is not None
    points = [axes.transData.transform(np.asarray(line.get_xydata())) for line in axes.lines]
    return np.concatenate(points), legend.get_window_extent()


def _falling() -> Track:
    track = Track(100)
    for number in range(100):
        track.record(wrong=number < 50, wrong_greedy=number < 20)
    return track


def test_each_column_has_its_own_error() -> None:
    """All errors, the last ones, and the greedy label's: alike, they may change places unseen."""
    console = Console(width=100)
    with console.capture() as capture:
        console.print(table({"one": _falling()}, window=80))
    (line,) = [line for line in capture.get().splitlines() if "one" in line]
    assert [cell.strip() for cell in line.split("│")[2:5]] == ["50.0 %", "37.5 %", "20.0 %"]
    stream = ClickStream(DATA, horizon=100)
    (one,) = as_json(stream, {"one": _falling()}, window=10, elapsed_s=1.0)["learners"]
    assert (one["error"], one["window_error"], one["greedy_error"]) == (0.5, 0.0, 0.2)


@pytest.mark.parametrize("scale", ["log", "linear"])
def test_a_curve_is_where_its_errors_are(scale: Scale) -> None:
    """None was ever drawn below 50 %, and nobody noticed."""
    track = _falling()
    (line,) = _drawn({"all": {"one": track}}, title="Test", scale=scale).axes[0].lines
    rounds = np.asarray(line.get_xdata()).astype(np.int64)
    assert np.asarray(line.get_ydata()).tolist() == track.curve(rounds).tolist()


def test_json_says_how_feedback_came_and_how_fast_rounds_went() -> None:
    """A replay is repeated from it: shuffling is not the delay; two learners are one replay."""
    noise = Noise(delay=(3, 7), shuffle=11, duplicate=0.25)
    stream = ClickStream(DATA, horizon=1000, noise=noise)
    two = {"one": track(1000, 4), "other": track(1000, 5)}
    told = as_json(stream, two, window=10, elapsed_s=2.0)
    assert told["noise"]["delay"] == [3, 7]
    assert (told["noise"]["shuffle"], told["noise"]["duplicate"]) == (11, 0.25)
    assert told["rounds_per_s"] == 500


def test_the_curves_are_the_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only no error at all is drawn as another number: half an error, for its logarithm."""
    drawn: list[Figure] = []
    monkeypatch.setattr(report, "save", lambda figure, _: drawn.append(figure))
    plot({"p": {"some": track(100, 4), "one": track(100, 1000)}}, tmp_path / "x.png", title="t")
    some, one = (np.asarray(line.get_ydata()) for line in drawn[0].axes[0].get_lines())
    assert some[-1] == pytest.approx(0.25)
    assert (one[0], one[-1]) == (1.0, pytest.approx(0.01))
