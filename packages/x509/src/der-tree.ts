// Any DER value as a tree of typed values, without a schema. Two uses: `assertCanonical` runs over everything
// that comes from outside before its meaning is looked at, so that no corner a schema skips (unknown attributes,
// algorithm parameters) can hide a second spelling; and `encodeTree(decodeTree(x))` equals `x` for every `x` the
// reader lets through, which the property tests hold it to.

import * as der from "./der.ts";
import { DEFAULT_LIMITS, readDer, type DerLimits, type DerReader } from "./der-reader.ts";

export type DerTree =
  | { readonly kind: "boolean"; readonly value: boolean }
  | { readonly kind: "integer" | "enumerated"; readonly value: bigint }
  | { readonly kind: "bits"; readonly unusedBits: number; readonly bytes: Buffer }
  | { readonly kind: "null" }
  | { readonly kind: "oid"; readonly value: string }
  | { readonly kind: "utf8" | "ia5"; readonly value: string }
  | { readonly kind: "utcTime" | "generalizedTime"; readonly value: Date }
  | { readonly kind: "set"; readonly members: readonly DerTree[] }
  | { readonly kind: "constructed"; readonly tag: number; readonly members: readonly DerTree[] }
  | { readonly kind: "primitive"; readonly tag: number; readonly content: Buffer };

export function decodeTree(bytes: Buffer, limits: DerLimits = DEFAULT_LIMITS): DerTree {
  return readDer(bytes, readTree, limits);
}

/** Throws DerError unless `bytes` are one DER value, canonical all the way down. */
export function assertCanonical(bytes: Buffer, limits: DerLimits = DEFAULT_LIMITS): void {
  readDer(bytes, readTree, limits);
}

function readTree(reader: DerReader): DerTree {
  const tag = reader.nextTag;
  switch (tag) {
    case der.TAG.boolean:
      return { kind: "boolean", value: reader.boolean() };
    case der.TAG.integer:
      return { kind: "integer", value: reader.integer() };
    case der.TAG.enumerated:
      return { kind: "enumerated", value: reader.integer(der.TAG.enumerated) };
    case der.TAG.bitString:
      return { kind: "bits", ...reader.bitString() };
    case der.TAG.null:
      reader.null();
      return { kind: "null" };
    case der.TAG.oid:
      return { kind: "oid", value: reader.oid() };
    case der.TAG.utf8String:
      return { kind: "utf8", value: reader.utf8String() };
    case der.TAG.ia5String:
      return { kind: "ia5", value: reader.ia5String() };
    case der.TAG.utcTime:
      return { kind: "utcTime", value: reader.time().at };
    case der.TAG.generalizedTime:
      return { kind: "generalizedTime", value: reader.time().at };
    case der.TAG.set:
      return { kind: "set", members: reader.setOf(readTree) };
    case undefined:
      throw reader.error("a value is missing");
    default:
      return readUntyped(reader, tag);
  }
}

function readUntyped(reader: DerReader, tag: number): DerTree {
  const isUniversal = tag < 0x40;
  const isConstructed = (tag & 0x20) !== 0;
  if (isUniversal && isConstructed && tag !== der.TAG.sequence)
    throw reader.error("a string in pieces is not DER");
  if (isUniversal && (tag === 0x10 || tag === 0x11 || tag === 0))
    throw reader.error("a tag that cannot occur");
  if (isConstructed) return { kind: "constructed", tag, members: reader.list(tag, readTree) };
  return { kind: "primitive", tag, content: reader.content(tag) };
}

export function encodeTree(tree: DerTree): Buffer {
  switch (tree.kind) {
    case "boolean":
      return der.boolean(tree.value);
    case "integer":
      return der.integer(tree.value);
    case "enumerated":
      return der.tlv(der.TAG.enumerated, der.integerContent(tree.value));
    case "bits":
      return der.bitString(tree.bytes, tree.unusedBits);
    case "null":
      return der.nullValue();
    case "oid":
      return der.oid(tree.value);
    case "utf8":
      return der.utf8String(tree.value);
    case "ia5":
      return der.ia5String(tree.value);
    case "utcTime":
      return der.utcTime(tree.value);
    case "generalizedTime":
      return der.generalizedTime(tree.value);
    case "set":
      return der.setOf(tree.members.map(encodeTree));
    case "constructed":
      return der.tlvOf(tree.tag, tree.members.map(encodeTree));
    case "primitive":
      return der.tlv(tree.tag, tree.content);
  }
}
