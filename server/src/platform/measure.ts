/** A metric that is read when the metrics are scraped, and costs nothing until then. */
export interface Measure {
  readonly name: `keyward_${string}`;
  readonly help: string;
  /** A gauge goes up and down; a counter only grows while the process lives. */
  readonly kind: "gauge" | "counter";
  /** Names of the labels, when there are several readings; never a value that a caller chose. */
  readonly labels?: readonly string[];
  read(): readonly MeasureReading[] | Promise<readonly MeasureReading[]>;
}

export interface MeasureReading {
  readonly value: number;
  /** One for each of the measure's labels. */
  readonly of?: readonly string[];
}
