import { collectDefaultMetrics, Counter, Histogram, Registry } from "prom-client";

/** What Prometheus sees. Labels hold route patterns and status codes, never a value that a caller chose. */
export interface Metrics {
  readonly registry: Registry;
  observe(route: string, method: string, status: number, seconds: number): void;
}

export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: "keyward_" });
  const requests = new Counter({
    name: "keyward_http_requests_total",
    help: "Answered requests.",
    labelNames: ["method", "route", "status"],
    registers: [registry],
  });
  const durations = new Histogram({
    name: "keyward_http_request_seconds",
    help: "Time from the request's head to the end of its answer.",
    labelNames: ["route"],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    registers: [registry],
  });
  return {
    registry,
    observe(route, method, status, seconds) {
      requests.labels(method, route, String(status)).inc();
      durations.labels(route).observe(seconds);
    },
  };
}
