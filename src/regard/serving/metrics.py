"""Figures for Prometheus: what was asked, how long it took, what waits, how full the batches are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from regard.serving.engine import Engine

CONTENT = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """A registry of its own for each server."""

    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.registry.register(_Lanes(engine))
        about: dict[str, Any] = {"labelnames": ("path", "status"), "registry": self.registry}
        self.requests = Counter(
            "regard_requests", "Requests answered, by path and HTTP status (499: the client left)", **about
        )
        self.seconds = Histogram(
            "regard_request_seconds",
            "Seconds from a request to its answer's end",
            ("path",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.open = Gauge("regard_requests_open", "Requests being worked on", registry=self.registry)

    def text(self) -> bytes:
        """All figures in Prometheus' text format."""
        return generate_latest(self.registry)


class _Lanes(Collector):
    """The engine's own counts, read when they are asked for."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def collect(self) -> Iterator[Metric]:
        counts = {
            "requests": "Requests taken on by a model",
            "refused": "Requests turned away because too much waited",
            "cancelled": "Sentences that were worked on when their client left",
            "units": "Sentences or prompts worked on",
            "tokens": "Tokens read by a model",
            "batches": "Batches worked on",
            "seconds": "Seconds spent on batches",
        }
        for name, what in counts.items():
            family = CounterMetricFamily(f"regard_model_{name}", what, labels=["model"])
            for lane in self.engine.each_lane():
                family.add_metric([lane.served.name], getattr(lane.statistics, name))
            yield family
        waiting = GaugeMetricFamily("regard_model_waiting", "Sentences or prompts that wait", labels=["model"])
        sizes = CounterMetricFamily("regard_model_batch_size", "Batches by size, up to", labels=["model", "up_to"])
        for lane in self.engine.each_lane():
            waiting.add_metric([lane.served.name], len(lane.waiting))
            for size, count in sorted(lane.statistics.sizes.items()):
                sizes.add_metric([lane.served.name, str(size)], count)
        yield waiting
        yield sizes
