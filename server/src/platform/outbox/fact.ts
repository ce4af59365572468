/** A domain event: something that happened, in the past tense, for other rooms and other nodes. */
export interface Fact<Data = unknown> {
  readonly name: string;
  readonly data: Data;
}

/** A fact with its place in the one order that all nodes see. */
export interface NumberedFact extends Fact {
  readonly seq: number;
  /** The transaction that stated it: with a snapshot, this tells what was committed before and what after. */
  readonly xid: number;
  /** When it was stated, in microseconds by the database's clock: with its number, this identifies it. */
  readonly at: number;
}

export interface FactKind<Data> {
  (data: Data): Fact<Data>;
  readonly factName: string;
  /** Narrows a fact that came back from the outbox. */
  is(fact: Fact): fact is Fact<Data>;
}

/** Declares a fact once: `export const projectDeleted = fact<{ projectId: string }>("project.deleted")`. */
export function fact<Data>(name: string): FactKind<Data> {
  const make = (data: Data): Fact<Data> => ({ name, data });
  return Object.assign(make, {
    factName: name,
    is: (candidate: Fact): candidate is Fact<Data> => candidate.name === name,
  });
}
