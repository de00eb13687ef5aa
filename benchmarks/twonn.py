"""TwoNN beside scikit-dimension and DADApy: seconds, memory and answers, on the same file of vectors.

    python -m benchmarks.twonn --json build/twonn.json

The vectors are a Gaussian of dimension 10 in 768 coordinates, 10,000 of them in float32. Each tool runs in a
process of its own and only its estimator is timed: the best of three after one to warm up, with as many threads as
it takes by itself. The tools take turns twice, since other work on the machine comes and goes. The peers want
older libraries, so they get an environment of their own, made once.
"""

import argparse
import json
import subprocess
import sys
import venv
from math import inf, isfinite
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / "build" / "peers"
DATA = ROOT / "build" / "twonn"
PEER_PYTHON = PEERS / ("Scripts" if sys.platform == "win32" else "bin") / "python"

OURS = "theodolite"
PACKAGES = {"scikit-dimension": "0.5.0", "dadapy": "0.3.4"}
ESTIMATORS = {
    OURS: "import torch; from theodolite.measures.twonn import twonn\n"
    "def estimate(x): return twonn(torch.from_numpy(x)).keep90",
    "scikit-dimension": "from skdim.id import TwoNN\ndef estimate(x): return TwoNN().fit(x).dimension_",
    "dadapy": "from dadapy import Data\ndef estimate(x): return Data(coordinates=x).compute_id_2NN()[0]",
}
TIMER = """
import json, resource, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
x, repeats = np.load(sys.argv[1]), int(sys.argv[2])
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
before, seconds = peak(), []
answer = estimate(x)
for _ in range(repeats):
    start = time.perf_counter()
    answer = estimate(x)
    seconds.append(time.perf_counter() - start)
print(json.dumps({"estimate": float(answer), "seconds": min(seconds, default=None), "mib": peak() - before}))
"""

Outcome = dict[str, object]


def run() -> dict[str, object]:
    """Time every tool, ask each for its answer on data that mislead, print the table and return the numbers."""
    missing = {name: prepare(name, version) for name, version in PACKAGES.items()}
    outcomes = {
        case: {name: missing.get(name) or measure(name, path, repeats=0) for name in ESTIMATORS}
        for case, path in write_cases().items()
    }
    for _ in range(2):
        outcomes["plain"] = {
            name: missing.get(name) or faster(name, known) for name, known in outcomes["plain"].items()
        }
    ratio = over_fastest_peer(outcomes["plain"])
    print(table(outcomes, ratio))
    return {
        "twonn_seconds": outcomes["plain"][OURS].get("seconds"),
        "twonn_over_fastest_peer": ratio,
        "peers": {name: outcomes["plain"][name] for name in PACKAGES},
        "twonn_estimates": {
            case: {name: o.get("estimate") for name, o in row.items()} for case, row in outcomes.items()
        },
    }


def faster(name: str, known: Outcome) -> Outcome:
    """Return the known outcome or another turn's, whichever took less time."""
    return min(known, measure(name, DATA / "plain.npy", repeats=3), key=seconds)


def seconds(outcome: Outcome) -> float:
    taken = outcome.get("seconds")
    return taken if isinstance(taken, float) else inf


def over_fastest_peer(plain: dict[str, Outcome]) -> float | None:
    ours, theirs = seconds(plain[OURS]), min(seconds(plain[name]) for name in PACKAGES)
    return ours / theirs if isfinite(ours) and isfinite(theirs) else None


def prepare(name: str, version: str) -> Outcome | None:
    """Install a peer where it is not yet; return None, or why it is missing."""
    if not PEER_PYTHON.exists():
        venv.create(PEERS, with_pip=True)
    known = [
        str(PEER_PYTHON),
        "-c",
        f"from importlib.metadata import version; assert version('{name}') == '{version}'",
    ]
    if subprocess.run(known, capture_output=True, check=False).returncode == 0:
        return None
    pip = [
        str(PEER_PYTHON),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        f"{name}=={version}",
    ]
    installed = subprocess.run(pip, capture_output=True, text=True, check=False)
    return None if installed.returncode == 0 else {"missing": last_line(installed.stderr)}


def write_cases() -> dict[str, Path]:
    """Write the vectors as they are, with a coordinate offset by 3,000, and with 10% of them repeated."""
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.standard_normal((768, 10)))[0]
    plain = (rng.standard_normal((10_000, 10)) @ axes.T).astype(np.float32)
    offset = plain.copy()
    offset[:, 5] += 3000
    repeated = np.concatenate([plain[:9000], plain[:1000]])
    DATA.mkdir(parents=True, exist_ok=True)
    cases = {"plain": plain, "offset": offset, "repeated": repeated}
    for name, vectors in cases.items():
        np.save(DATA / f"{name}.npy", vectors)
    return {name: DATA / f"{name}.npy" for name in cases}


def measure(name: str, path: Path, repeats: int) -> Outcome:
    """Run one tool on one file in a process of its own."""
    python = sys.executable if name == OURS else str(PEER_PYTHON)
    command = [python, "-c", ESTIMATORS[name] + TIMER, str(path), str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"missing": last_line(done.stderr)}
    outcome: Outcome = json.loads(done.stdout.splitlines()[-1])
    return outcome


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no word of why"])[-1]


def table(outcomes: dict[str, dict[str, Outcome]], ratio: float | None) -> str:
    lines = [f"{'TwoNN, 10,000 x 768':<20}{'seconds':>9}{'+MiB':>7}{'d = 10':>9}{'offset':>9}{'repeated':>10}"]
    for name, outcome in outcomes["plain"].items():
        if not isfinite(seconds(outcome)):
            lines.append(f"{name:<20}  {outcome.get('missing')}")
            continue
        answers = [outcomes[case][name].get("estimate", "fails") for case in outcomes]
        plain, offset, repeated = (f"{a:.2f}" if isinstance(a, float) else str(a) for a in answers)
        numbers = f"{outcome['seconds']:>9.2f}{outcome['mib']:>7.0f}"
        lines.append(f"{name:<20}{numbers}{plain:>9}{offset:>9}{repeated:>10}")
    lines.append("no peer to compare with" if ratio is None else f"ours over the faster peer: {ratio:.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the numbers to this file")
    chosen = parser.parse_args()
    numbers = run()
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(numbers, indent=2) + "\n")
