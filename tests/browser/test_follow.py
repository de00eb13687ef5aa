"""The page of `view --follow`: a step that is added appears without a reload by hand, and choices stay."""

from __future__ import annotations

from pathlib import Path
from threading import Thread

import pandas as pd
import pytest
from playwright.sync_api import Browser
from tests.api.test_live_page import _add_step
from tests.browser.conftest import PATIENCE, READY
from tests.synthetic_series import make_series

from theodolite.api.live_page import make_server


@pytest.mark.slow
def test_a_new_step_appears_and_choices_stay(browser: Browser, tmp_path: Path) -> None:
    series = make_series(steps=(0, 10), attention=False)
    series.tables["training"] = pd.DataFrame({"step": range(11), "loss": [4 - 0.1 * k for k in range(11)]})
    series.tables["batches"] = series.table[series.table["step"] == 10]
    series.write(tmp_path)
    with make_server([tmp_path]) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        try:
            page.goto(f"http://127.0.0.1:{server.server_address[1]}/")
            frame = page.frame_locator("#report")
            inside = page.frames[1]
            inside.wait_for_function(READY)
            assert inside.evaluate("theodolite.data.series[0].steps") == [0, 10]
            assert frame.get_by_role("heading", name="Training", exact=True).count() == 1
            plots = "[...document.querySelectorAll('.js-plotly-plot')]"
            names = f"{plots}.flatMap((one) => one.data.map((line) => line.name))"
            assert "training batches, mean over blocks" in inside.evaluate(names)
            inside.evaluate("theodolite.choose({ measure: 'anisotropy_svd' })")
            _add_step(tmp_path, 20)
            inside.wait_for_function(
                "typeof theodolite !== 'undefined' && theodolite.data?.series[0].steps.length === 3"
            )
            inside.wait_for_function(READY)
            assert inside.evaluate("theodolite.state.measure") == "anisotropy_svd"
        finally:
            page.close()
            server.shutdown()
