"""docs/extending.md is one script that runs, and its source gives the numbers of the definition."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
WITHIN = 1e-6  # states are float32, and so are the directions that are summed


@pytest.mark.slow
def test_the_examples_run(tmp_path: Path) -> None:
    # In a process of its own: what they register would be in every later list of formulas and exhibits.
    script = tmp_path / "extending.py"
    script.write_text("\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)))
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "norms.png").stat().st_size > 5_000
    n, types, cosine = ran.stdout.split()
    text = "the cat sat on the mat" + "a dog ran after it"
    assert (int(n), int(types)) == (len(text), len(set(text)))
    assert abs(float(cosine) - mean_cosine(text)) < WITHIN


def mean_cosine(text: str) -> float:
    """Return the mean cosine over all pairs of characters' bits, by definition."""
    bits = [np.array([(ord(letter) >> k) & 1 for k in range(8)], dtype=np.float64) for letter in text]
    pairs = [x @ y / np.linalg.norm(x) / np.linalg.norm(y) for x, y in permutations(bits, 2)]
    return float(np.mean(pairs))
