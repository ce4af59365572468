/**
 * Work of many tenants, a chunk of each at a time: one tenant's year of backlog does not hold up another's minute. A
 * walk yields after each chunk. One that fails ends by itself; the others go on, and the first failure is thrown at the end.
 */
export async function takingTurns(
  walks: Iterable<AsyncGenerator<void>>,
  isOver: () => boolean = () => false,
): Promise<void> {
  const failures: unknown[] = [];
  let left = [...walks];
  while (left.length > 0) {
    const next: AsyncGenerator<void>[] = [];
    for (const walk of left) {
      if (isOver()) return tell(failures);
      try {
        if (!(await walk.next()).done) next.push(walk);
      } catch (error) {
        failures.push(error);
      }
    }
    left = next;
  }
  return tell(failures);
}

function tell(failures: readonly unknown[]): void {
  if (failures.length > 0) throw failures[0];
}
