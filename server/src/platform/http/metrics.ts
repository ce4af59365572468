import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from "prom-client";
import type { Measure, MeasureReading } from "../measure.ts";

/** What Prometheus sees. Labels hold route patterns and status codes, never a value that a caller chose. */
export interface Metrics {
  readonly registry: Registry;
  observe(route: string, method: string, status: number, seconds: number): void;
}

/** Less than a usual scrape time-out: what an unreachable database cannot give is left out, the rest is shown. */
const PATIENCE_MS = 2000;

async function readOrNothing(measure: Measure): Promise<readonly MeasureReading[]> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<readonly MeasureReading[]>((resolve) => {
    timer = setTimeout(() => resolve([]), PATIENCE_MS);
  });
  try {
    return await Promise.race([measure.read(), late]);
  } catch {
    return [];
  } finally {
    clearTimeout(timer);
  }
}

function register(measure: Measure, registry: Registry): void {
  const labelNames = [...(measure.labels ?? [])];
  const settings = { name: measure.name, help: measure.help, labelNames, registers: [registry] };
  const collect = async (metric: Gauge | Counter): Promise<void> => {
    const readings = await readOrNothing(measure);
    metric.reset();
    for (const { value, of = [] } of readings) metric.labels(...of).inc(value);
    // Without labels there is always a value, and a zero would be a lie.
    if (readings.length === 0 && labelNames.length === 0 && metric instanceof Gauge) metric.set(Number.NaN);
  };
  if (measure.kind === "gauge")
    new Gauge({
      ...settings,
      collect() {
        return collect(this);
      },
    });
  else
    new Counter({
      ...settings,
      collect() {
        return collect(this);
      },
    });
}

export function createMetrics(measures: readonly Measure[]): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: "keyward_" });
  for (const measure of measures) register(measure, registry);
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
