// PEM (RFC 7468): DER in base64 between labelled lines. Text around the blocks is skipped, as every tool writes
// some; inside a block nothing but base64 is accepted.

import { X509Error } from "./x509-error.ts";

interface PemBlock {
  readonly label: string;
  readonly der: Buffer;
}

export interface PemLimits {
  readonly maxCharacters: number;
  readonly maxBlocks: number;
}

const DEFAULT_PEM_LIMITS: PemLimits = { maxCharacters: 2 << 20, maxBlocks: 100 };

export function encodePem(label: string, der: Buffer): string {
  const text = der.toString("base64");
  let lines = "";
  for (let at = 0; at < text.length; at += 64) lines += `${text.slice(at, at + 64)}\n`;
  return `-----BEGIN ${label}-----\n${lines}-----END ${label}-----\n`;
}

export function decodePem(text: string, limits: PemLimits = DEFAULT_PEM_LIMITS): PemBlock[] {
  const refuse = (why: string): X509Error => new X509Error("pem", "pem", `The PEM text ${why}.`);
  if (text.length > limits.maxCharacters) throw refuse(`is longer than ${limits.maxCharacters} characters`);
  const blocks: PemBlock[] = [];
  const begin = /^-----BEGIN ([A-Z0-9 ]{1,64})-----[ \t]*$/gm;
  for (let match = begin.exec(text); match !== null; match = begin.exec(text)) {
    const label = match[1] ?? "";
    const footer = `-----END ${label}-----`;
    const stop = text.indexOf(footer, begin.lastIndex);
    if (stop < 0) throw refuse(`has no line "${footer}"`);
    if (blocks.length === limits.maxBlocks) throw refuse(`has more than ${limits.maxBlocks} blocks`);
    const der = decodeBase64(text.slice(begin.lastIndex, stop));
    if (der === undefined) throw refuse(`has something other than base64 inside "${label}"`);
    blocks.push({ label, der });
    begin.lastIndex = stop + footer.length;
  }
  return blocks;
}

/** Base64 with line breaks, complete and in its one canonical spelling; undefined otherwise. */
export function decodeBase64(text: string): Buffer | undefined {
  const compact = text.replace(/[ \t\r\n]+/g, "");
  const der = Buffer.from(compact, "base64");
  return compact !== "" && der.toString("base64") === compact ? der : undefined;
}

/** The blocks of one label; an error when there is none. */
export function decodePemOf(label: string, text: string, limits?: PemLimits): Buffer[] {
  const found = decodePem(text, limits).filter((block) => block.label === label);
  if (found.length === 0) throw new X509Error("pem", "pem", `The PEM text has no ${label} block.`);
  return found.map(({ der }) => der);
}
