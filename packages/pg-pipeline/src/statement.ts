/** SQL text, and the name under which a connection prepares it once; without a name it is parsed with every run. */
export interface PipelineStatement<Row> {
  readonly name: string | undefined;
  readonly text: string;
  /** What a row is read as; nothing at run time. */
  readonly row?: Row;
}
