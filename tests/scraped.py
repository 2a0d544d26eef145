"""What Prometheus reads of metrics, as plain numbers."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from gateway.metrics import Metrics


def page(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """Every sample by its name and its values in the order of labels' names, buckets left out.

    So are the process's own, which move by themselves.
    """
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(metrics.render()[0].decode())
        for sample in family.samples
        if sample.name.startswith("dedup_") and not sample.name.endswith("_bucket")
    }


def of(found: dict[tuple[str, ...], float], name: str) -> dict[tuple[str, ...], float]:
    """The samples of one name, by their labels."""
    return {key[1:]: value for key, value in found.items() if key[0] == name}
