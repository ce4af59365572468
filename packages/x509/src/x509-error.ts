// A refusal that a person can act on: `code` names the rule, `field` the part of the request, and the message
// says what would pass. Broken encodings are a different matter and throw DerError (der.ts).

export class X509Error extends Error {
  readonly code: string;
  readonly field: string;

  constructor(code: string, field: string, message: string) {
    super(message);
    this.name = "X509Error";
    this.code = code;
    this.field = field;
  }
}

/** A value inside a message. Messages travel to logs and terminals: no raw control characters, no endless values. */
export function quote(value: string): string {
  const cut = value.length > 80 ? `${value.slice(0, 80)}…` : value;
  const plain = cut.replace(
    /\p{Cc}/gu,
    (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
  return `"${plain}"`;
}
