"""The figures as a picture: processor time per request, and latency at a steady rate."""

from __future__ import annotations

from pathlib import Path
from statistics import median

from bench.figures import Found
from bench.measure import Measured

_BARS = (
    ("echo", "request", "echo"),
    ("consumer", "request", "consumer"),
    ("nginx", "request", "nginx"),
    ("gateway", "duplicate", "gateway,\nduplicate"),
    ("gateway", "doubles", "gateway,\ndoubles"),
    ("gateway", "first", "gateway,\nfirst"),
    ("gateway", "inbox", "gateway,\nstored"),
    ("gateway", "inbox_delivered", "gateway,\ninbox"),
)


def draw(found: Found, file: Path) -> None:
    """Write a PNG. Needs matplotlib, which only this needs."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (bars, curves) = pyplot.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    at = [m for m in found.measured if m.connections == 64]
    shown = [(label, runs) for t, load, label in _BARS if (runs := _runs(at, t, load))]
    labels = [label for label, _ in shown]
    own = [_cpu(runs, runs[0].target) for _, runs in shown]
    postgres = [_cpu(runs, "postgres") for _, runs in shown]
    bars.bar(labels, own, color="#2f6f9f", label="the process itself")
    bars.bar(labels, postgres, bottom=own, color="#c9a227", label="its Postgres")
    bars.set_ylabel("CPU per request, µs")
    bars.set_title("64 connections")
    bars.tick_params(axis="x", labelsize=8)
    bars.legend()
    for name, colour in (("consumer", "#777777"), ("gateway", "#2f6f9f")):
        values = sorted(latency * 1e3 for latency in found.latencies[name])
        shares = [(at + 1) / len(values) for at in range(len(values))]
        label = "consumer directly" if name == "consumer" else "through the gateway"
        curves.plot(values, shares, color=colour, label=label)
    curves.set_xscale("log")
    curves.set_xlabel("latency, ms")
    curves.set_ylabel("share of deliveries")
    curves.set_title("200 events a second, from the intended time")
    curves.grid(alpha=0.3)
    curves.legend(loc="lower right")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=130)
    pyplot.close(figure)


def _runs(measured: list[Measured], target: str, load: str) -> list[Measured]:
    return [m for m in measured if (m.target, m.load) == (target, load)]


def _cpu(runs: list[Measured], process: str) -> float:
    return median(run.cpu_us.get(process, 0.0) for run in runs)
