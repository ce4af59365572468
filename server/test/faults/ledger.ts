/**
 * What must be true of the data, kept in memory beside it. A request that was answered 200 happened; one that was
 * refused did not; one whose answer never came either happened as a whole or not at all. Each writer has keys of its
 * own and leaves a key alone while its state is open, so the judgement needs no search through orders of events.
 */
export interface Chance {
  readonly keys: readonly string[];
  /** The value that all keys got, or undefined when they were all deleted. */
  readonly value: string | undefined;
}

export class Ledger {
  readonly #certain = new Map<string, string>();
  readonly #open = new Set<Chance>();
  /** Things that were made, by kind: id → name. */
  readonly #made = new Map<string, Map<string, string>>();
  readonly #maybe = new Map<string, Set<string>>();
  /** By kind and id: the name that a thing may have got without an answer, or undefined when it may be gone. */
  readonly #changing = new Map<string, string | undefined>();
  /** The x-request-id of every acknowledged change. */
  readonly requestIds: string[] = [];
  unanswered = 0;

  isOpen(key: string): boolean {
    return [...this.#open].some(({ keys }) => keys.includes(key));
  }

  has(key: string): boolean {
    return this.#certain.has(key);
  }

  wrote({ keys, value }: Chance): void {
    for (const key of keys) {
      if (value === undefined) this.#certain.delete(key);
      else this.#certain.set(key, value);
    }
  }

  mayHaveWritten(chance: Chance): void {
    this.unanswered += 1;
    this.#open.add(chance);
  }

  made(kind: string, id: string, name: string): void {
    const known = this.#made.get(kind) ?? new Map<string, string>();
    this.#made.set(kind, known.set(id, name));
  }

  mayHaveMade(kind: string, name: string): void {
    this.unanswered += 1;
    const known = this.#maybe.get(kind) ?? new Set<string>();
    this.#maybe.set(kind, known.add(name));
  }

  /** Things of a kind whose state is known, by the beginning of their names. */
  settled(kind: string, prefix: string): { id: string; name: string }[] {
    return [...(this.#made.get(kind) ?? [])]
      .filter(([id, name]) => name.startsWith(prefix) && !this.#changing.has(`${kind} ${id}`))
      .map(([id, name]) => ({ id, name }));
  }

  /** A thing has another name now, or, without one, is gone. */
  changed(kind: string, id: string, name: string | undefined): void {
    if (name === undefined) this.#made.get(kind)?.delete(id);
    else this.made(kind, id, name);
  }

  mayHaveChanged(kind: string, id: string, name: string | undefined): void {
    this.unanswered += 1;
    this.#changing.set(`${kind} ${id}`, name);
  }

  get kinds(): string[] {
    return [...new Set([...this.#made.keys(), ...this.#maybe.keys()])];
  }

  get acknowledged(): number {
    return this.requestIds.length;
  }

  /** Compares with what is there, and takes what is there as the truth for what was open. */
  judgeSecrets(present: ReadonlyMap<string, string>): string[] {
    const faults: string[] = [];
    for (const chance of this.#open) {
      const happened = chance.keys.map((key) => present.get(key) === chance.value);
      const untouched = chance.keys.map((key) => present.get(key) === this.#certain.get(key));
      if (happened.every(Boolean)) this.wrote(chance);
      else if (!untouched.every(Boolean))
        faults.push(
          `half of a change happened: ${chance.keys.map((key) => `${key}=${present.get(key)}`).join(", ")}, wanted ${chance.value}`,
        );
    }
    this.#open.clear();
    for (const [key, value] of this.#certain)
      if (present.get(key) !== value)
        faults.push(`${key} was acknowledged as ${value} and is ${present.get(key)}`);
    for (const key of present.keys())
      if (!this.#certain.has(key)) faults.push(`${key} is there and was never written or was deleted`);
    return faults;
  }

  judgeThings(kind: string, present: ReadonlyMap<string, string>): string[] {
    const faults: string[] = [];
    const made = this.#made.get(kind) ?? new Map<string, string>();
    const maybe = this.#maybe.get(kind) ?? new Set<string>();
    for (const [id, name] of [...made]) {
      const now = present.get(id);
      const key = `${kind} ${id}`;
      const isOpen = this.#changing.has(key);
      if (now !== name && !(isOpen && now === this.#changing.get(key)))
        faults.push(`${kind} ${name} was acknowledged and is ${now ?? "not there"}`);
      else if (isOpen) this.changed(kind, id, now);
      this.#changing.delete(key);
    }
    for (const [id, name] of present) {
      if (made.has(id)) continue;
      // Made without an answer: from now on it has to stay.
      if (maybe.delete(name)) this.made(kind, id, name);
      else faults.push(`${kind} ${name} is there and nobody made it, or it was made twice`);
    }
    maybe.clear();
    return faults;
  }
}
