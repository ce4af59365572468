// The findings of a lint, and its input.

import type { Certificate, TbsCertificate } from "./certificate.ts";
import type { PublicKeyFacts } from "./keys.ts";

export interface Finding {
  readonly code: string;
  readonly severity: "error" | "warn";
  readonly field: string;
  readonly message: string;
}

export interface LintFacts {
  readonly tbs: TbsCertificate;
  /** Undefined for a self-signed root. */
  readonly issuer: Certificate | undefined;
  readonly key: PublicKeyFacts;
  readonly isCa: boolean;
  /** How many CAs may follow below the issuer; undefined for any number. */
  readonly levelsBelowIssuer: number | undefined;
}

export type LintRule = (facts: LintFacts) => Finding[];

type Say = (code: string, field: string, message: string) => Finding;

export const error: Say = (code, field, message) => ({ code, severity: "error", field, message });
export const warn: Say = (code, field, message) => ({ code, severity: "warn", field, message });
