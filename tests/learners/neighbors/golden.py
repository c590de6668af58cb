"""The fixtures that golden numbers are stated for."""

from __future__ import annotations

import numpy as np

#: A line of ten points, for RkNN; one of eight with labels, for the filters.
LINE = np.array([[0, 1, 2.2, 3.5, 5, 6.6, 8.3, 10.1, 12, 14]]).T

#: Ten points of three classes whose 3-nearest-neighbour graph is known, for the hubness family.
#: In tenths, so that single precision holds them exactly: what is checked is free of scale.
POINTS = np.array(
    [
        (0, 0), (10, 1), (2, 13), (20, 20), (29, 22),
        (17, 31), (40, 3), (49, 8), (36, 14), (60, 50),
    ],
    dtype=np.float64,
)  # fmt: skip
LABELS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 1, 2])
QUERIES = np.array([(24.0, 17.0), (43.0, 26.0), (9.0, 7.0)])
