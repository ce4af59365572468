/** Without half of a surrogate pair: such a text cannot be stored. Asked of the engine, which is quick about it. */
export const isWellFormed = (text: string): boolean =>
  (text as string & { isWellFormed(): boolean }).isWellFormed();
