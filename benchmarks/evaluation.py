"""How often the evaluation from a log covers the truth, with and without the correction.

Run::

    python -m benchmarks.evaluation --data ../shared/data [--json] [--quick] [--out out]

Each log is 5,000 rounds of the 64-feature digits, drawn with replacement, that RCNBF with true
rates and gamma 0.1 decided and learned from, starting from nothing; 200 logs a setting, each of
its own seed. What is evaluated: the policy that decided; its greedy labels (no exploration);
uniform; one constant label; a linear classifier fixed beforehand; and a Banditron that learns from
the same log without deciding, each round before it learns from it; and how much more each is worth
than what was shown ("gain"). The true value is known, because the right labels are: over the drawn
instances for what learns on the way, over the data set for what is fixed. Noise: 15/15, 20/40 and
40/40 % for all labels, and rates of each label's own, from [.02, .5] and [.02, .3]. The rates that
correct are "true"; "audited", measured with their binomial errors on 200 looked-up rounds of each
kind, of each label where it has its own; or, in the full run, for 20 logs a setting, "network",
what NREst finds in that very log. With --quick, 40 logs of 2,000 rounds of two settings: a smoke
test. With --softmax, ForwardSoftmax decides, told nothing, and "learned" are the rates that it has
found in the end. With --set another data set is played, such as magic04, whose two classes overlap.

"Covers" is the share of logs whose 95 % interval holds the true value, for the worst policy. The
propensities of each log are tested by chi-square against the labels that were drawn.

Each finished setting is written to ``evaluation.json`` in the output folder, and not run again for
as many logs of as many rounds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from benchmarks.command import Target, at_least, at_most, count, report
from benchmarks.datasets import Dataset, load
from benchmarks.kept import Cell, Kept
from learners import RCNBF, Banditron, ForwardSoftmax, Learner, NoiseRates, Outcome, draw
from learners.evaluation import (
    AssumedRates,
    Evaluation,
    Rounds,
    Value,
    always,
    fixed,
    progressive,
    uniform,
    weights_of,
)
from learners.validation import FloatArray, IntArray

GAMMA = 0.1
#: Rounds of each kind that an audit looks up for each label.
AUDITED = 200
#: The 64-feature digits.
DIGITS = "optdigits"
#: The share of logs that has to be covered, at a nominal 95 %.
COVERED = 0.9
#: One in a hundred tests by chi-square falls below 0.01 by chance; five of them hardly ever.
LEVEL, MOST_BELOW = 0.01, 0.05
UNIFORM_NOISE = {"15/15": (0.15, 0.15), "20/40": (0.2, 0.4), "40/40": (0.4, 0.4)}
PER_LABEL = "per label"


class Plan(NamedTuple):
    """What is run."""

    settings: tuple[str, ...]
    logs: int
    rounds: int
    network_logs: int
    softmax: bool


FULL = Plan((*UNIFORM_NOISE, PER_LABEL), 200, 5000, 20, softmax=False)
QUICK = Plan(("20/40", PER_LABEL), 40, 2000, 0, softmax=False)


class Log(NamedTuple):
    """What one learner decided, with all that only a simulation knows."""

    rounds: Rounds
    right: IntArray
    greedy: IntArray
    probabilities: FloatArray


class Policy(NamedTuple):
    """What is evaluated: weights, where they are known probabilities (n, K), and the truth."""

    weights: FloatArray
    probabilities: FloatArray | None
    truth: float


def rates_of(setting: str, n_labels: int) -> AssumedRates:
    """Return the true rates of a setting; those of each label are the same in every log."""
    if setting in UNIFORM_NOISE:
        return AssumedRates.same(NoiseRates(*UNIFORM_NOISE[setting]), n_labels)
    rng = np.random.default_rng(1000)
    zeros = np.zeros(n_labels)
    return AssumedRates(
        rng.uniform(0.02, 0.5, n_labels), rng.uniform(0.02, 0.3, n_labels), zeros, zeros
    )


def deciding(data: Dataset, rates: AssumedRates, *, softmax: bool) -> Learner:
    """Return the learner that decides."""
    if softmax:
        return ForwardSoftmax(data.xs.shape[1], data.n_labels, gamma=GAMMA)
    means = float(rates.rho_0.mean()), float(rates.rho_1.mean())
    return RCNBF(data.xs.shape[1], data.n_labels, gamma=GAMMA, rho_0=means[0], rho_1=means[1])


def play(learner: Learner, data: Dataset, rates: AssumedRates, n_rounds: int, seed: int) -> Log:
    """Let a learner decide, click with noise, learn, and log it."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(data.xs), size=n_rounds)
    xs, right = data.xs[rows], data.labels[rows]
    uniforms = rng.random(n_rounds).tolist()
    # Whether the bit would be flipped, for each label that may be shown.
    flips = rng.random(n_rounds)
    labels, greedy = np.empty(n_rounds, np.int64), np.empty(n_rounds, np.int64)
    feedback = np.empty(n_rounds, np.int64)
    probabilities = np.empty((n_rounds, data.n_labels))
    for t in range(n_rounds):
        distribution = learner.distribution(xs[t])
        label = draw(distribution, uniforms[t])
        bit = int(label == right[t])
        if flips[t] < (rates.rho_1 if bit else rates.rho_0)[label]:
            bit = 1 - bit
        propensity = float(distribution.probabilities[label])
        learner.update(Outcome(xs[t], label, distribution.greedy, propensity, bit))
        labels[t], greedy[t], feedback[t] = label, distribution.greedy, bit
        probabilities[t] = distribution.probabilities
    propensities = probabilities[np.arange(n_rounds), labels]
    rounds = Rounds(xs, labels, propensities, feedback)
    return Log(rounds, right, greedy, probabilities)


def policies(log: Log, data: Dataset, other: Banditron) -> dict[str, Policy]:
    """Return what is evaluated on a log."""
    rounds, n_labels = log.rounds, data.n_labels
    n_rounds = len(rounds.labels)
    challenger = Banditron(data.xs.shape[1], n_labels, gamma=0.05)
    shadow = progressive(challenger, rounds)
    of_other = fixed(other, rounds.xs)
    at = np.arange(n_rounds)

    def policy(probabilities: FloatArray, truth: float) -> Policy:
        return Policy(weights_of(rounds, probabilities), probabilities, truth)

    everything = fixed(other, data.xs)[np.arange(len(data.xs)), data.labels]
    return {
        "deciding": Policy(np.ones(n_rounds), None, float(log.probabilities[at, log.right].mean())),
        "greedy": policy(always(log.greedy, n_labels), float((log.greedy == log.right).mean())),
        "uniform": policy(uniform(n_rounds, np.ones(n_labels, dtype=np.bool_)), 1 / n_labels),
        "label 0": policy(
            always(np.zeros(n_rounds, np.int64), n_labels), float((data.labels == 0).mean())
        ),
        "classifier": policy(of_other, float(everything.mean())),
        "challenger": policy(shadow, float(shadow[at, log.right].mean())),
    }


def estimates(evaluation: Evaluation, policy: Policy) -> dict[str, Value]:
    """Return every estimate of a policy's value."""
    found = {"ips": evaluation.ips(policy.weights)}
    normalised = evaluation.snips(policy.weights)
    if normalised is not None:
        found["snips"] = normalised
    if policy.probabilities is not None:
        followed = (policy.probabilities * evaluation.predicted).sum(1)
        found["dr"] = evaluation.doubly_robust(policy.weights, followed)
        found["gain"] = evaluation.gain(policy.weights, followed)
    return found


def truth_of(how: str, policy: Policy, shown: Policy) -> float:
    """Return what an estimate of a policy should be, `shown` being the one that decided."""
    return policy.truth - shown.truth if how == "gain" else policy.truth


def audited(rates: AssumedRates, rng: np.random.Generator) -> AssumedRates:
    """Measure the rates on looked-up rounds, with add-one counts and binomial errors."""
    if rates.sharing == "one":
        found, errors = _counted(np.array([rates.rho_0[0], rates.rho_1[0]]), rng)
        return AssumedRates.same(
            NoiseRates(*found.tolist()), rates.n_labels, (float(errors[0]), float(errors[1]))
        )
    rho_0, rho_0_error = _counted(rates.rho_0, rng)
    rho_1, rho_1_error = _counted(rates.rho_1, rng)
    return AssumedRates(rho_0, rho_1, rho_0_error, rho_1_error)


def _counted(rates: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    clicks = rng.binomial(AUDITED, rates).astype(np.float64)
    found: FloatArray = (clicks + 1.0) / (AUDITED + 2.0)
    errors: FloatArray = np.sqrt(found * (1.0 - found) / (AUDITED + 2.0))
    return found, errors


def network(log: Log, n_labels: int, seed: int) -> AssumedRates | None:
    """Estimate the rates from the log itself; None where they are not to be trusted."""
    from learners.noise.nrest import NREst  # noqa: PLC0415 - torch, for the full run only

    found = NREst(n_labels, seed=seed).estimate(log.rounds.xs, *log.rounds[1::2]).estimate
    reading = found.reading
    if reading is None or not found.trusted:
        return None
    if not reading.labels_differ:
        rates = NoiseRates(reading.rho_0, reading.rho_1)
        return AssumedRates.same(rates, n_labels, (reading.rho_0_error, reading.rho_1_error))
    return AssumedRates(
        reading.label_rho_0,
        reading.label_rho_1,
        reading.label_rho_0_error,
        reading.label_rho_1_error,
    )


def chi_square(log: Log) -> float:
    """Return the p-value of the drawn labels under the logged probabilities.

    The labels' counts less their expectations, whose covariance is known round by round, make a
    chi-square of K - 1 degrees of freedom also where every round has its own probabilities.
    """
    probabilities = log.probabilities
    counts = np.bincount(log.rounds.labels, minlength=probabilities.shape[1])
    off = counts - probabilities.sum(0)
    covariance = np.diag(probabilities.sum(0)) - probabilities.T @ probabilities
    statistic = float(off @ np.linalg.pinv(covariance) @ off)
    return float(stats.chi2.sf(statistic, probabilities.shape[1] - 1))


def run_setting(data: Dataset, other: Banditron, setting: str, plan: Plan) -> Cell:
    """Play the logs of one setting and count which intervals hold the truth."""
    truth = rates_of(setting, data.n_labels)
    clean = AssumedRates.same(NoiseRates(), data.n_labels)
    hits: dict[str, list[tuple[bool, float]]] = {}
    p_values, trusted = [], 0
    for seed in range(plan.logs):
        learner = deciding(data, truth, softmax=plan.softmax)
        log = play(learner, data, truth, plan.rounds, seed)
        p_values.append(chi_square(log))
        kinds = {"uncorrected": clean, "true": truth}
        kinds["audited"] = audited(truth, np.random.default_rng(seed + 10_000))
        if learner.learns_rates:
            found_rates = *learner.label_rates, *learner.label_rate_errors
            kinds["learned"] = AssumedRates(*found_rates, "unknown")
        if seed < plan.network_logs:
            found = network(log, data.n_labels, seed)
            if found is not None:
                kinds["network"], trusted = found, trusted + 1
        wanted = policies(log, data, other)
        for kind, rates in kinds.items():
            evaluation = Evaluation(log.rounds, rates)
            for name, policy in wanted.items():
                for how, value in estimates(evaluation, policy).items():
                    right = truth_of(how, policy, wanted["deciding"])
                    inside = value.low <= right <= value.high
                    hits.setdefault(f"{kind}|{name}|{how}", []).append(
                        (inside, value.high - value.low)
                    )
    cell: Cell = {"setting": setting, "logs": plan.logs, "network_trusted": trusted}
    cell["chi_square_below"] = float(np.mean(np.array(p_values) < LEVEL))
    cell["covers"] = {key: float(np.mean([hit for hit, _ in each])) for key, each in hits.items()}
    cell["width"] = {key: float(np.median([w for _, w in each])) for key, each in hits.items()}
    return cell


def train_other(data: Dataset) -> Banditron:
    """Return a classifier of middling quality, trained on right labels before any log."""
    rng = np.random.default_rng(99)
    other = Banditron(data.xs.shape[1], data.n_labels, gamma=0.05)
    for row in rng.integers(len(data.xs), size=500).tolist():
        other.learn(data.xs[row], int(data.labels[row]))
    return other


def worst(cell: Cell, kind: str) -> tuple[float, str]:
    """Return the lowest coverage of one kind of rates, and of which policy and estimate."""
    found = [(share, key) for key, share in cell["covers"].items() if key.startswith(f"{kind}|")]
    return min(found, default=(float("nan"), "-"))


def print_table(cells: list[Cell]) -> None:
    """Print coverage and width for each setting, policy and estimate."""
    print(f"{'noise':10} {'policy':11} {'':5} {'uncorrected':>11} {'true':>6} {'audited':>8}"
          f" {'network':>8} {'learned':>8}   median width: true, audited")  # fmt: skip
    for cell in cells:
        for key in cell["covers"]:
            kind, name, how = key.split("|")
            if kind != "true":
                continue
            covers = [
                cell["covers"].get(f"{each}|{name}|{how}")
                for each in ("uncorrected", "true", "audited", "network", "learned")
            ]
            shown = ["-" if share is None else f"{share:.3f}" for share in covers]
            widths = [cell["width"][f"{each}|{name}|{how}"] for each in ("true", "audited")]
            print(f"{cell['setting']:10} {name:11} {how:5} {shown[0]:>11} {shown[1]:>6}"
                  f" {shown[2]:>8} {shown[3]:>8} {shown[4]:>8}  "
                  f" {widths[0]:.3f} {widths[1]:.3f}")  # fmt: skip


def judge(cells: list[Cell]) -> list[Target]:
    """Compare the coverage with its targets."""
    targets = []
    for cell in cells:
        setting = cell["setting"]
        for kind in ("true", "audited", "learned"):
            share, key = worst(cell, kind)
            if key != "-":
                name = f"{setting}, {kind} rates: least coverage ({key}), at least"
                targets.append(at_least(name, share, COVERED))
        share = max(cell["covers"][f"uncorrected|deciding|{how}"] for how in ("ips", "snips"))
        name = f"{setting}, uncorrected: coverage of the deciding policy, below"
        targets.append(Target(name, share, COVERED, share < COVERED))
        name = f"{setting}: logs whose propensities have a chi-square p below {LEVEL}, at most"
        targets.append(at_most(name, cell["chi_square_below"], MOST_BELOW))
    return targets


def main() -> None:
    """Run what is not there yet, print the table, and with --json one object as the last line."""
    parser = argparse.ArgumentParser(description="Coverage of the evaluation from a log.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the npz files")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the results")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="about a minute")
    parser.add_argument("--softmax", action="store_true", help="ForwardSoftmax decides")
    parser.add_argument("--logs", type=count, help="logs of each setting")
    parser.add_argument("--set", default=DIGITS, help="the data set (default: %(default)s)")
    args = parser.parse_args()
    out = args.out / "quick" if args.quick else args.out
    out = out / "softmax" if args.softmax else out
    out = out if args.set == DIGITS else out / args.set
    plan = (QUICK if args.quick else FULL)._replace(softmax=args.softmax)
    if args.logs:
        plan = plan._replace(logs=args.logs, network_logs=min(args.logs, plan.network_logs))
    data = load(args.set, args.data)
    other = train_other(data)
    kept = Kept(out / "evaluation.json")
    found = []
    for setting in plan.settings:
        key = f"{setting}, {plan.logs} logs of {plan.rounds} rounds"
        if key not in kept:
            kept.add(key, run_setting(data, other, setting, plan))
        found.append(kept.cells[key])
    print_table(found)
    cells = dict(zip(plan.settings, found, strict=True))
    report(judge(found), as_json=args.json, quick=args.quick, cells=cells)


if __name__ == "__main__":
    main()
