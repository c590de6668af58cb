"""Every neighbour learner, for the tests that run over all of them."""

from __future__ import annotations

from functools import partial

from learners.checks import LearnerFactory
from learners.neighbors.anhbnn import ANHBNN
from learners.neighbors.auto import AutoRkNN
from learners.neighbors.bandit import NeighborBandit
from learners.neighbors.hfnn import HFNN
from learners.neighbors.hiknn import HIKNN
from learners.neighbors.hubness_learner import HwKNN
from learners.neighbors.knn import KNN
from learners.neighbors.nhbnn import NHBNN
from learners.neighbors.rknn import PlugIn, RkNN
from learners.neighbors.weighted import AKNN, NWKNN

#: Windows so small that the checks' rounds push examples out.
CASES: dict[str, LearnerFactory] = {
    "knn": partial(KNN, window=40, k=3),
    "knn-cosine": partial(KNN, window=40, k=3, metric="cosine"),
    "rknn": partial(RkNN, window=40, k=5, k_noise=7),
    "rknn-quantile": partial(RkNN, window=40, k=5, k_noise=7, quantile=0.05, metric="manhattan"),
    "hw_knn": partial(HwKNN, window=40, k=3),
    "h_fnn": partial(HFNN, window=40, k=3),
    "hiknn": partial(HIKNN, window=40, k=3, metric="manhattan"),
    "nhbnn": partial(NHBNN, window=40, k=3, anti_hub=1),
    "anhbnn": partial(ANHBNN, window=40, k=3),
    "aknn": partial(AKNN, window=40, k=3),
    "nwknn": partial(NWKNN, window=40, k=3, weighted=True),
    "rknn_auto": partial(AutoRkNN, window=40),
    "neighbor_bandit": partial(NeighborBandit, window=30, k=3, gamma=0.2, rho_0=0.1, rho_1=0.2),
    "plugin_knn": partial(PlugIn, window=40, k=5),
}
