/** Without half of a surrogate pair: such a text cannot be stored. Asked of the engine, which is quick about it. */
export const isWellFormed = (text: string): boolean =>
  (text as string & { isWellFormed(): boolean }).isWellFormed();

const SHOWN = 100;

/** For messages: names come from users and have any length. */
export const clip = (text: string, most = SHOWN): string =>
  text.length > most ? `${text.slice(0, most)}…` : text;
