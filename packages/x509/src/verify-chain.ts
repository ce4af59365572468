// Building and judging a chain (RFC 5280 6.1), from a leaf through a pool of intermediates to a trusted root.
//
// Pools are untrusted input: certificates may form loops or carry the same name a thousand times. So the search
// remembers where it has been, and both depth and the number of signatures it checks are bounded.

import type { KeyObject } from "node:crypto";
import { isSelfIssued, type Certificate } from "./certificate.ts";
import { importSpki } from "./keys.ts";
import { formatName } from "./name-text.ts";
import {
  MAX_COMPARISONS,
  violatesNameConstraints,
  type ComparisonBudget,
  type NameConstraints,
} from "./name-constraints.ts";
import { comparisonKey } from "./names.ts";
import { isSignedByAsync } from "./signatures.ts";
import type { ExtendedKeyUsage } from "./usages.ts";

export interface ChainQuestion {
  readonly leaf: Certificate;
  readonly intermediates: readonly Certificate[];
  readonly roots: readonly Certificate[];
  readonly at: Date;
  /** Checked in the leaf and in every CA that limits its extended key usages. */
  readonly purpose?: ExtendedKeyUsage | undefined;
}

interface ChainProblem {
  readonly code: string;
  readonly subject: string;
  readonly message: string;
}

type ChainAnswer =
  | { readonly isValid: true; readonly chain: readonly Certificate[] }
  | { readonly isValid: false; readonly problems: readonly ChainProblem[] };

const MAX_DEPTH = 10;
/** Three times what the longest chain needs, for those in which some authorities have a name in common. */
const MAX_SIGNATURE_CHECKS = 30;

/** The first valid chain, leaf first and root last; otherwise everything that stood in the way. */
export async function verifyChain(question: ChainQuestion): Promise<ChainAnswer> {
  const search = new ChainSearch(question);
  const chain = await search.extend([question.leaf]);
  if (chain !== undefined) return { isValid: true, chain };
  return { isValid: false, problems: search.problems };
}

class ChainSearch {
  readonly problems: ChainProblem[] = [];
  readonly #question: ChainQuestion;
  readonly #roots: ReadonlySet<string>;
  readonly #issuersByName = new Map<string, Certificate[]>();
  readonly #keys = new Map<string, KeyObject | undefined>();
  #checksLeft = MAX_SIGNATURE_CHECKS;
  /** For all chains that are tried: a hundred of them must not cost a hundred times as much. */
  readonly #comparisons: ComparisonBudget = { left: MAX_COMPARISONS };

  constructor(question: ChainQuestion) {
    this.#question = question;
    this.#roots = new Set(question.roots.map(identityOf));
    // Roots first: the shortest chain wins.
    for (const candidate of [...question.roots, ...question.intermediates]) {
      const key = comparisonKey(candidate.subject.rdns);
      const sameName = this.#issuersByName.get(key);
      if (sameName === undefined) this.#issuersByName.set(key, [candidate]);
      else sameName.push(candidate);
    }
  }

  /** Grows a chain upwards until it ends in a root and passes every check. */
  async extend(chain: readonly Certificate[]): Promise<readonly Certificate[] | undefined> {
    const last = chain.at(-1);
    if (last === undefined) return undefined;
    if (this.#roots.has(identityOf(last))) return this.#accept(chain);
    if (chain.length >= MAX_DEPTH)
      return this.#fail(last, "chain.too_long", `longer than ${MAX_DEPTH} certificates`);
    const candidates = this.#candidatesFor(last).filter(
      (each) => !chain.some((one) => one.der.equals(each.der)),
    );
    if (candidates.length === 0) return this.#fail(last, "chain.no_issuer", "its issuer is not known");
    for (const issuer of candidates) {
      if (this.#checksLeft === 0)
        return this.#fail(last, "chain.too_many", "too many candidates for its issuer");
      if (!(await this.#isSigned(last, issuer))) {
        this.#fail(last, "chain.signature", `not signed by ${formatName(issuer.subject.rdns)}`);
        continue;
      }
      const found = await this.extend([...chain, issuer]);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Same name; those whose key identifier fits come first, since it is a hint and not a rule. */
  #candidatesFor(child: Certificate): Certificate[] {
    const hint = child.extensions.authorityKeyIdentifier;
    const fits = (each: Certificate): number =>
      hint !== undefined && each.extensions.subjectKeyIdentifier?.equals(hint) === true ? 0 : 1;
    const sameName = this.#issuersByName.get(comparisonKey(child.issuer.rdns)) ?? [];
    return [...sameName].sort((a, b) => fits(a) - fits(b));
  }

  /** In the thread pool: others are answered between any two of them. */
  async #isSigned(child: Certificate, issuer: Certificate): Promise<boolean> {
    this.#checksLeft -= 1;
    const key = this.#keyOf(issuer);
    const signed = { bytes: child.tbs, identifier: child.algorithmIdentifier, signature: child.signature };
    return key !== undefined && (await isSignedByAsync(signed, key));
  }

  #keyOf({ publicKey }: Certificate): KeyObject | undefined {
    const id = publicKey.toString("base64");
    if (!this.#keys.has(id)) this.#keys.set(id, tryImport(publicKey));
    return this.#keys.get(id);
  }

  #accept(chain: readonly Certificate[]): readonly Certificate[] | undefined {
    const problems = judgePath(chain, this.#question, this.#comparisons);
    this.problems.push(...problems);
    return problems.length === 0 ? chain : undefined;
  }

  #fail(certificate: Certificate, code: string, what: string): undefined {
    this.problems.push(problem(certificate, code, what));
  }
}

const identityOf = (certificate: Certificate): string => certificate.der.toString("base64");

function tryImport(spki: Buffer): KeyObject | undefined {
  try {
    return importSpki(spki);
  } catch {
    // An issuer whose key we cannot use has signed nothing we can check.
    return undefined;
  }
}

function problem(certificate: Certificate, code: string, what: string): ChainProblem {
  const subject = formatName(certificate.subject.rdns) || `serial ${certificate.serialNumber}`;
  return { code, subject, message: `${subject}: ${what}.` };
}

/** Everything but signatures, for a chain that is complete: leaf first. */
function judgePath(
  chain: readonly Certificate[],
  { at, purpose }: ChainQuestion,
  comparisons: ComparisonBudget,
): ChainProblem[] {
  const problems: ChainProblem[] = [];
  const constraints: NameConstraints[] = [];
  for (let depth = chain.length - 1; depth >= 0; depth -= 1) {
    const certificate = chain[depth];
    if (certificate === undefined) continue;
    const found = [
      ...judgeAlone(certificate, at),
      ...(depth > 0 ? judgeAuthority(certificate, chain.slice(1, depth)) : []),
      ...judgeNames(certificate, constraints, depth === 0, comparisons),
      ...judgePurpose(certificate, purpose),
    ];
    problems.push(...found.map(([code, what]) => problem(certificate, code, what)));
    const { nameConstraints } = certificate.extensions;
    if (nameConstraints !== undefined) constraints.push(nameConstraints);
  }
  return problems;
}

type FoundPath = readonly (readonly [code: string, what: string])[];

function judgeAlone({ notBefore, notAfter, extensions }: Certificate, at: Date): FoundPath {
  const found: [string, string][] = [];
  if (at < notBefore) found.push(["chain.not_yet_valid", `not valid before ${notBefore.toISOString()}`]);
  if (at > notAfter) found.push(["chain.expired", `not valid after ${notAfter.toISOString()}`]);
  for (const oid of extensions.unknownCritical)
    found.push(["chain.unknown_critical", `unknown critical extension ${oid}`]);
  for (const oid of extensions.duplicates)
    found.push(["chain.duplicate_extension", `extension ${oid} twice`]);
  return found;
}

/** `below` are the intermediates between this CA and the leaf. */
function judgeAuthority({ extensions }: Certificate, below: readonly Certificate[]): FoundPath {
  const { basicConstraints, keyUsage } = extensions;
  if (basicConstraints?.isCa !== true) return [["chain.not_ca", "not a certificate authority"]];
  const found: [string, string][] = [];
  if (keyUsage !== undefined && !keyUsage.includes("key_cert_sign")) {
    found.push(["chain.key_usage", "its key may not sign certificates"]);
  }
  // Self-issued certificates (a key roll-over) do not use up path length.
  const used = below.filter((each) => !isSelfIssued(each)).length;
  if (basicConstraints.pathLength !== undefined && used > basicConstraints.pathLength) {
    found.push([
      "chain.path_length",
      `allows ${basicConstraints.pathLength} authorities below it, not ${used}`,
    ]);
  }
  return found;
}

function judgeNames(
  certificate: Certificate,
  above: readonly NameConstraints[],
  isLeaf: boolean,
  comparisons: ComparisonBudget,
): FoundPath {
  if (above.length === 0 || (isSelfIssued(certificate) && !isLeaf)) return [];
  const { subject, extensions } = certificate;
  const names = {
    subject: subject.rdns,
    altNames: extensions.subjectAltName ?? [],
    isCa: extensions.basicConstraints?.isCa === true,
  };
  const violation = violatesNameConstraints(names, above, comparisons);
  return violation === undefined ? [] : [["chain.name_constraints", violation.message.replace(/\.$/, "")]];
}

function judgePurpose({ extensions }: Certificate, purpose: ExtendedKeyUsage | undefined): FoundPath {
  const allowed = extensions.extendedKeyUsage;
  if (purpose === undefined || allowed === undefined) return [];
  if (allowed.includes(purpose) || allowed.includes("any_purpose")) return [];
  return [["chain.purpose", `not meant for ${purpose}`]];
}
