"""The page that follows a run: it is made again when a step is added, and waits for the first one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from urllib.error import HTTPError
from urllib.request import urlopen

import pandas as pd
import pytest
from tests.synthetic_series import make_series

from theodolite.api.live_page import LivePage, make_server
from theodolite.errors import InputError
from theodolite.report import page as page_module
from theodolite.studies.series import Series


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "read_plotly", lambda: "/* Plotly */")


@contextmanager
def _serve(folder: Path) -> Iterator[str]:
    with make_server([folder]) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


def _get(address: str) -> str:
    with urlopen(address) as answer:
        return str(answer.read().decode())


def _add_step(folder: Path, step: int) -> None:
    series = Series.read(folder)
    rows = series.table[series.table["step"] == series.steps[-1].step].drop(columns="step")
    series.append(step, f"step {step}", None, rows)
    series.write(folder)


def _steps(page: str) -> list[int]:
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    return list(data["series"][0]["steps"])


def test_the_page_follows_a_series_that_grows(tmp_path: Path) -> None:
    folder = tmp_path / "series"
    with _serve(folder) as address:
        assert "/report" in _get(f"{address}/"), "the frame is there before the first measurement"
        assert "updated when there is a measurement" in _get(f"{address}/report")
        before = _get(f"{address}/version")
        make_series(steps=(0, 10), attention=False).write(folder)
        first = _get(f"{address}/version")
        assert first != before
        assert _steps(_get(f"{address}/report")) == [0, 10]
        assert _get(f"{address}/version") == first
        _add_step(folder, 20)
        assert _get(f"{address}/version") != first
        assert _steps(_get(f"{address}/report")) == [0, 10, 20]
        with pytest.raises(HTTPError, match="404"):
            _get(f"{address}/etc/passwd")


def test_a_folder_that_cannot_be_read_keeps_the_last_page(tmp_path: Path) -> None:
    make_series(steps=(0, 10), attention=False).write(tmp_path)
    live = LivePage([tmp_path])
    page = live.page()
    table = tmp_path / "series.parquet"
    table.write_bytes(table.read_bytes()[:100])
    (tmp_path / "series.json").touch()  # as if a step was being written
    assert live.page() == page


def test_a_port_in_use_is_rejected(tmp_path: Path) -> None:
    with make_server([tmp_path]) as server:
        port = server.server_address[1]
        with pytest.raises(InputError, match=f"port {port} cannot be used"):
            make_server([tmp_path], port)
    with pytest.raises(InputError, match=r"port must be between 0 and 65535 \(got 70000\)"):
        make_server([tmp_path], 70_000)


def test_the_page_has_the_loss_of_the_run(tmp_path: Path) -> None:
    series = make_series(steps=(0, 10), attention=False)
    series.tables["training"] = pd.DataFrame({"step": range(5000), "loss": [1.0] * 5000, "note": [None] * 5000})
    series.write(tmp_path)
    data = json.loads(LivePage([tmp_path]).page().decode().split('id="data">')[1].split("</script>")[0])
    training = data["series"][0]["training"]
    assert list(training["measures"]) == ["loss"]
    assert len(training["steps"]) == 2000, "more are averaged"
