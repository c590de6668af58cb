"""Nearest neighbours over a moving window, and what is robust to wrong labels on top of them.

Learners from labels, all with `neighbors(x)` (who votes) and `suspects()` (who looks
mislabelled); those that keep a graph (all but `KNN`, `AKNN`, `NWKNN`, and `RkNN` with given
rates) also with `hubness()`, `alarm()` and `hub_watch`
    `KNN`; `RkNN`, `PlugIn`, `AutoRkNN` (asymmetric noise); `HwKNN`, `HFNN`, `HIKNN`, `NHBNN`,
    `ANHBNN` (many dimensions, heavy noise); `AKNN`, `NWKNN` (baselines).
A bandit learner
    `NeighborBandit`.
Filters
    `LaplaceFilter`, a view of a window; `wilson`, `icf`, `drop3`, `hmn_ei`, in batch.
Underneath
    `Window`, `NeighborGraph` and what is counted over it: `Occurrences`, `NeighborhoodLabels`, or
    any other `Observer`. `to_rows` makes the `Rows` that they take; places in a window are `Slots`.
"""

from learners.neighbors.alarm import HubAlarm, HubWatch, hub_alarm
from learners.neighbors.anhbnn import ANHBNN
from learners.neighbors.auto import AutoRkNN, Validation
from learners.neighbors.bandit import NeighborBandit
from learners.neighbors.counts import NeighborhoodLabels, Occurrences
from learners.neighbors.editing import drop3, hmn_ei, icf, wilson
from learners.neighbors.graph import NeighborGraph, Observer
from learners.neighbors.hfnn import HFNN
from learners.neighbors.hiknn import HIKNN
from learners.neighbors.hubness import HubnessReport, hubness_report
from learners.neighbors.hubness_learner import HwKNN
from learners.neighbors.knn import KNN
from learners.neighbors.laplacian import LaplaceFilter
from learners.neighbors.metrics import Rows, Slots
from learners.neighbors.neighborhood_noise import WindowNoise
from learners.neighbors.neighborhoods import Neighborhoods
from learners.neighbors.nhbnn import NHBNN
from learners.neighbors.rknn import PlugIn, RkNN
from learners.neighbors.weighted import AKNN, NWKNN
from learners.neighbors.window import Window, to_rows
from learners.neighbors.window_learner import Voter, WindowLearner

__all__ = [
    "AKNN",
    "ANHBNN",
    "HFNN",
    "HIKNN",
    "KNN",
    "NHBNN",
    "NWKNN",
    "AutoRkNN",
    "HubAlarm",
    "HubWatch",
    "HubnessReport",
    "HwKNN",
    "LaplaceFilter",
    "NeighborBandit",
    "NeighborGraph",
    "NeighborhoodLabels",
    "Neighborhoods",
    "Observer",
    "Occurrences",
    "PlugIn",
    "RkNN",
    "Rows",
    "Slots",
    "Validation",
    "Voter",
    "Window",
    "WindowLearner",
    "WindowNoise",
    "drop3",
    "hmn_ei",
    "hub_alarm",
    "hubness_report",
    "icf",
    "to_rows",
    "wilson",
]
