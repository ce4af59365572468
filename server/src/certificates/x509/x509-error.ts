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
