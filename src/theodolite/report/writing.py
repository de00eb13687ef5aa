"""The page on disk: written beside its final name and moved into place."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from theodolite.report.page import render
from theodolite.report.pictures import Picture
from theodolite.report.series_tables import Steps
from theodolite.report.tables import Tables


def write(
    surveys: Sequence[Tables | Mapping[str, Any]],
    path: Path,
    series: Sequence[Steps | Mapping[str, Any]] = (),
    pictures: Sequence[Picture] = (),
) -> None:
    """Write the report on surveys, series and studies; `path` holds the whole new page or what it held before."""
    # Everything from outside is made encodable where it is escaped; "replace" is only the last net.
    page = render(surveys, series, pictures).encode("utf-8", "replace")
    path = Path(path)
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=".part", delete=False) as beside:
        made = Path(beside.name)
        try:
            beside.write(page)
            beside.close()
            made.chmod(0o666 & ~_umask())
            os.replace(made, path)  # noqa: PTH105
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                made.unlink()
            raise


def _umask() -> int:
    # Temporary files are private; a report is as public as any file its owner makes.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
