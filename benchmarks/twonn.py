"""TwoNN compared with scikit-dimension and DADApy: time, memory and estimates for the same file of vectors.

    python -m benchmarks.twonn --json build/twonn.json

The data are 10,000 vectors in float32 from a Gaussian of dimension 10 in 768 coordinates. Each tool runs in its
own process, and only its estimator is timed: the best of three after a warm-up, with the number of threads that it
chooses. The tools run alternately twice, because the load of the machine varies. With --quick, ours is only
compared with the definition: all distances in float64.
"""

from __future__ import annotations

import json
import subprocess
import sys
from math import inf, isfinite
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import peers
from benchmarks.results import Row
from benchmarks.results import format_seconds as in_seconds
from benchmarks.runner import run_from_command_line
from benchmarks.timing import ratio, time_alternately
from theodolite.measures.intrinsic_dimension import twonn

DATA = peers.ROOT / "build" / "twonn"
OURS = "theodolite"
PACKAGES = {"scikit-dimension": "0.5.0", "dadapy": "0.3.4"}
ESTIMATORS = {
    OURS: "import torch; from theodolite.measures.intrinsic_dimension import twonn\n"
    "def estimate(x): return twonn(torch.from_numpy(x)).keep90",
    "scikit-dimension": "from skdim.id import TwoNN\ndef estimate(x): return TwoNN().fit(x).dimension_",
    "dadapy": "from dadapy import Data\ndef estimate(x): return Data(coordinates=x).compute_id_2NN()[0]",
}
TIMER = """
import json, resource, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
x, repeats = np.load(sys.argv[1]), int(sys.argv[2])
def peak():  # in MiB; getrusage would return the parent's peak if that was higher
    try:
        with open("/proc/self/status") as status:
            return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, seconds = peak(), []
answer = estimate(x)
for _ in range(repeats):
    start = time.perf_counter()
    answer = estimate(x)
    seconds.append(time.perf_counter() - start)
print(json.dumps({"estimate": float(answer), "seconds": min(seconds, default=None), "mib": peak() - before}))
"""

Outcome = dict[str, Any]
Vectors = NDArray[np.float32]


def run(quick: bool = False) -> dict[str, Any]:
    """Time every tool, and compare their estimates on difficult data."""
    return compare_with_definition() if quick else compare_with_peers()


def compare_with_peers() -> dict[str, Any]:
    """Time ours and the other tools; the row of a tool that cannot be installed has the reason."""
    missing = {name: prepare(name) for name in PACKAGES}
    outcomes: dict[str, dict[str, Outcome]] = {
        case: {name: missing.get(name) or measure(name, path, repeats=0) for name in ESTIMATORS}
        for case, path in write_cases().items()
    }
    for _ in range(2):
        outcomes["plain"] = {
            name: missing.get(name) or faster(name, known) for name, known in outcomes["plain"].items()
        }
    ours = outcomes["plain"][OURS]
    rows = []
    for name, version in PACKAGES.items():
        theirs = outcomes["plain"][name]
        known = isfinite(seconds(ours)) and isfinite(seconds(theirs))
        rows.append(
            Row(
                f"TwoNN over {name} {version}, 10,000 x 768",
                seconds(ours) / seconds(theirs) if known else None,
                1.0,
                describe(ours),
                describe(theirs),
                str(theirs.get("missing", ours.get("missing", ""))),
            ).to_dict()
        )
    answers = {case: {name: each.get("estimate") for name, each in row.items()} for case, row in outcomes.items()}
    return {"rows": rows, "estimates_of_dimension_10": answers, "outcomes": outcomes["plain"]}


def compare_with_definition() -> dict[str, Any]:
    """Time ours and the definition on few vectors, in this process."""
    x = cases(400, 32)["plain"]
    spent = time_alternately({"ours": lambda: twonn(torch.from_numpy(x)), "theirs": lambda: by_definition(x)}, 3)
    sides = (in_seconds(median(spent[name])) for name in ("ours", "theirs"))
    row = Row("TwoNN over its definition, 400 x 32", ratio(spent["ours"], spent["theirs"]), None, *sides)
    answers = {"theodolite": twonn(torch.from_numpy(x)).keep90, "definition": by_definition(x)}
    return {"rows": [row.to_dict()], "estimates_of_dimension_10": {"plain": answers}}


def by_definition(x: Vectors) -> float:
    """Return the slope of -log(1 - F) on log mu through the origin without the top tenth, from all distances."""
    wide = x.astype(np.float64)
    distances = np.sqrt(np.square(wide[:, None] - wide[None]).sum(axis=2))
    nearest = np.sort(distances, axis=1)[:, 1:3]
    log_mu = np.sort(np.log(nearest[:, 1] / nearest[:, 0]))
    kept = log_mu[: int(0.9 * len(log_mu))]
    y = -np.log1p(-np.arange(1, len(kept) + 1) / len(log_mu))
    return float(kept @ y / (kept @ kept))


def describe(outcome: Outcome) -> str:
    known = isfinite(seconds(outcome))
    return f"{in_seconds(seconds(outcome))}, +{outcome['mib']:.0f} MiB" if known else ""


def faster(name: str, known: Outcome) -> Outcome:
    """Return the known outcome or that of another run, whichever took less time."""
    return min(known, measure(name, DATA / "plain.npy", repeats=3), key=seconds)


def seconds(outcome: Outcome) -> float:
    taken = outcome.get("seconds")
    return taken if isinstance(taken, float) else inf


def prepare(name: str) -> Outcome | None:
    """Install a tool unless it is installed; return None, or the reason why it is missing."""
    try:
        peers.install(name, PACKAGES[name])
    except peers.MissingError as error:
        return {"missing": str(error)}
    return None


def cases(n: int, dim: int) -> dict[str, Vectors]:
    """Return the vectors unchanged, with one coordinate offset by 3,000, and with 10% of them repeated."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((dim, 10)))[0]
    plain = (rng.standard_normal((n, 10)) @ axes.T).astype(np.float32)
    offset = plain.copy()
    offset[:, 5] += 3000
    return {"plain": plain, "offset": offset, "repeated": np.concatenate([plain[: n - n // 10], plain[: n // 10]])}


def write_cases() -> dict[str, Path]:
    """Write the vectors to files that every tool reads."""
    DATA.mkdir(parents=True, exist_ok=True)
    made = cases(10_000, 768)
    for name, vectors in made.items():
        np.save(DATA / f"{name}.npy", vectors)
    return {name: DATA / f"{name}.npy" for name in made}


def measure(name: str, path: Path, repeats: int) -> Outcome:
    """Run one tool on one file in its own process."""
    python = sys.executable if name == OURS else str(peers.PYTHON)
    command = [python, "-c", ESTIMATORS[name] + TIMER, str(path), str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"missing": peers.last_line(done.stderr)}
    outcome: Outcome = json.loads(done.stdout.splitlines()[-1])
    return outcome


if __name__ == "__main__":
    run_from_command_line(run, __doc__)
