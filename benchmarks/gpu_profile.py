"""What a GPU does during a run: the time in which it is busy, its pauses, and its kernels."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

KINDS = ("kernel", "gpu_memcpy", "gpu_memset")
LISTED = 40


class Event(NamedTuple):
    """A kernel or a copy on the GPU. Times are in microseconds."""

    start: float
    end: float
    name: str


def profile_gpu(run: Callable[[], object]) -> dict[str, Any]:
    """Return the summary of a run, which must end with a synchronization. Only the GPU is traced."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as traced:
        run()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        traced.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return summarize(
        Event(event["ts"], event["ts"] + event["dur"], event["name"][:90])
        for event in events
        if event.get("cat") in KINDS
    )


def summarize(events: Iterable[Event]) -> dict[str, Any]:
    """Return milliseconds: from the first event to the last, busy, of all events, of pauses and of kernels.

    Events of several streams may overlap, so that together they take longer than the GPU is busy. A pause has the
    event that ended before it, and the one that started after it.

    >>> found = summarize([Event(0, 2000, "a"), Event(1000, 3000, "b"), Event(4000, 5000, "a")])
    >>> found["span_ms"], found["busy_ms"], found["sum_ms"], found["pauses"]
    (5.0, 4.0, 5.0, [(1.0, 'b', 'a')])
    """
    ordered = sorted(events)
    if not ordered:
        return {"span_ms": 0.0, "busy_ms": 0.0, "sum_ms": 0.0, "pauses": [], "kernels_ms": {}}
    spent: dict[str, float] = defaultdict(float)
    pauses, busy, last = [], 0.0, ordered[0]._replace(end=ordered[0].start)
    for event in ordered:
        spent[event.name] += event.end - event.start
        if event.start > last.end:
            pauses.append((round((event.start - last.end) / 1e3, 3), last.name, event.name))
        busy += max(event.end - max(event.start, last.end), 0.0)
        last = max(last, event, key=lambda one: one.end)
    longest = sorted(spent, key=spent.__getitem__, reverse=True)[:LISTED]
    return {
        "span_ms": (last.end - ordered[0].start) / 1e3,
        "busy_ms": busy / 1e3,
        "sum_ms": sum(spent.values()) / 1e3,
        "pauses": sorted(pauses, reverse=True)[:LISTED],
        "kernels_ms": {name: round(spent[name] / 1e3, 3) for name in longest},
    }
