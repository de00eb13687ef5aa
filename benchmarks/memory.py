"""Peak memory against corpus size: it grows with the units seen, not with the tokens read."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

SIZES = {"100k": 240, "1M": 2400}  # documents of chitchat: about 430 tokens each

SURVEY = """
import json, resource, sys, psutil, theodolite
import theodolite.surveys.models as models
base = {}
whole = models.run
def measured(plan, **options):  # the model is loaded now: what comes on top is the survey's own
    base["before"] = psutil.Process().memory_info().rss
    return whole(plan, **options)
models.run = measured
survey = theodolite.survey("minilm-l6", "chitchat", limit=int(sys.argv[1]), layers=sys.argv[2])
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"positions": survey.facts["counts"]["positions"], "units": survey.facts["counts"]["types"],
                  "before_MB": base["before"] / 1e6, "peak_MB": peak / 1e6}))
"""


def run(layers: str = "0,3,6") -> dict[str, Any]:
    """Survey two sizes of one corpus, each in a process of its own."""
    found = {name: _survey(documents, layers) for name, documents in SIZES.items()}
    small, large = found["100k"], found["1M"]
    per_unit = len(layers.split(",")) * 8 * (384 + 3)
    return {
        "memory": found,
        "memory_growth_MB": large["peak_MB"] - small["peak_MB"],
        "memory_growth_of_unit_tables_MB": (large["units"] - small["units"]) * per_unit / 1e6,
        "memory_1M_over_100k": large["peak_MB"] / small["peak_MB"],
    }


def _survey(documents: int, layers: str) -> dict[str, float]:
    command = [sys.executable, "-c", SURVEY, str(documents), layers]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", default="0,3,6")
    print(json.dumps(run(parser.parse_args().layers), indent=2))
