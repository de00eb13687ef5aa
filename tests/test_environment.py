"""Memory that a run may use: what is free on the machine, or less in a container with a limit of its own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from theodolite import environment
from theodolite.environment import available_memory

FREE = 10_000


@pytest.fixture
def cgroups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=FREE))
    monkeypatch.setattr(environment, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(environment, "OWN_CGROUP", tmp_path / "own")
    return tmp_path / "cgroup"


def limit(folder: Path, names: tuple[str, ...], most: str, used: int, cached: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{most}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {cached}\n")


def test_without_cgroups_the_free_memory_counts(cgroups: Path) -> None:
    assert available_memory() == FREE
    (cgroups.parent / "own").write_text("0::/job\n12:cpu,cpuacct:/job\nnonsense\n")
    assert available_memory() == FREE


@pytest.mark.parametrize("version", [1, 2])
def test_the_least_of_all_limits_counts(cgroups: Path, version: int) -> None:
    """The limit of a job may be that of the folder that contains it; files in the cache can be freed."""
    top, names = (cgroups, environment.NAMES) if version == 2 else (cgroups / "memory", environment.NAMES_BEFORE)
    (cgroups.parent / "own").write_text("0::/slurm/job/step\n" if version == 2 else "9:memory:/slurm/job/step\n")
    limit(top / "slurm/job/step", names, "max", 300, 0)
    limit(top / "slurm/job", names, "2000", 1500, 400)
    limit(top / "slurm", names, "100000", 1500, 0)
    limit(top, names, "950", 0, 0)
    assert available_memory() == 900
    limit(top, names, "800", 300, 0)
    assert available_memory() == 500
    limit(top / "slurm/job", names, "2000", 2500, 0)
    assert available_memory() == 0


def test_in_a_container_only_the_top_folder_is_seen(cgroups: Path) -> None:
    (cgroups.parent / "own").write_text("0::/not/visible/here\n")
    limit(cgroups, environment.NAMES, "1200", 200, 0)
    assert available_memory() == 1000


def test_this_process_has_memory() -> None:
    assert available_memory() > 0
