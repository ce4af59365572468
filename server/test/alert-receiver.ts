// For tests: certificates put straight into the inventory, with the facts that the certificates room would state, and
// a receiver for webhooks that can be told how to behave.

import { randomBytes, randomUUID } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { Database, Tx } from "../src/platform/db/index.ts";
import { sql } from "../src/platform/db/index.ts";
import {
  certificateIssued,
  certificateRenewalFailed,
  certificateRenewed,
  certificateRevoked,
} from "../src/certificates/events.ts";

const insertCertificate = sql(`
  INSERT INTO certificates (id, project_id, profile_id, application_id, renewed_from_id, not_before, not_after, created_at, updated_at, is_ca, source,
    serial_number, common_name, search_text, alt_names, key_fingerprint)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $6, $6, $8, 'issued', $9, $10, $11, $12, $13)`);
const linkSuccessor = sql(`UPDATE certificates SET renewed_by_id = $2 WHERE id = $1`);
const setRevoked = sql(
  `UPDATE certificates SET phase = 2, revoked_at = $2, revocation_reason = $3 WHERE id = $1`,
);

export interface CertificateWish {
  readonly id?: string;
  readonly projectId: string;
  readonly profileId?: string;
  readonly applicationId?: string;
  readonly commonName?: string;
  readonly san?: readonly string[];
  readonly notBefore: Date;
  readonly notAfter: Date;
  readonly isCa?: boolean;
}

export function putCertificate(tx: Tx, wish: CertificateWish, replacedId: string | null = null): string {
  const id = wish.id ?? randomUUID();
  const serial = randomBytes(16).toString("hex");
  const { commonName = "app.example.com", san = [commonName] } = wish;
  tx.defer(insertCertificate, [
    id,
    wish.projectId,
    wish.profileId ?? null,
    wish.applicationId ?? null,
    replacedId,
    wish.notBefore,
    wish.notAfter,
    wish.isCa ?? false,
    serial,
    commonName,
    [commonName, ...san, serial].join("\n").toLowerCase(),
    JSON.stringify(san.map((value) => ({ type: "dns_name", value }))),
    randomBytes(32),
  ]);
  if (replacedId !== null) tx.defer(linkSuccessor, [replacedId, id]);
  return id;
}

/** What the certificates room does, without its cryptography. */
export function inventory(database: Database, orgId: string) {
  const write = <T>(work: (tx: Tx) => Promise<T>): Promise<T> => database.write(work, { audited: false });
  return {
    issue: (wish: CertificateWish) =>
      write(async (tx) => {
        const certificateId = putCertificate(tx, wish);
        tx.emit(certificateIssued({ orgId, projectId: wish.projectId, certificateId }));
        return certificateId;
      }),
    renew: (replacedId: string, wish: CertificateWish) =>
      write(async (tx) => {
        const certificateId = putCertificate(tx, wish, replacedId);
        tx.emit(certificateRenewed({ orgId, projectId: wish.projectId, certificateId, replacedId }));
        return certificateId;
      }),
    revoke: (certificateId: string, projectId: string, at: Date, reason = 1) =>
      write(async (tx) => {
        tx.defer(setRevoked, [certificateId, at, reason]);
        tx.emit(certificateRevoked({ orgId, projectId, certificateId }));
      }),
    failRenewal: (certificateId: string, projectId: string, reason: string) =>
      write(async (tx) => tx.emit(certificateRenewalFailed({ orgId, projectId, certificateId, reason }))),
    /** Many at once and without facts, as if they had been there all along. */
    seed: (wishes: readonly CertificateWish[]) =>
      write(async (tx) => wishes.map((wish) => putCertificate(tx, wish))),
  };
}

export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  // Assertions type it.
  // eslint-disable-next-line ts/no-explicit-any
  readonly json: any;
}

export interface Receiver {
  readonly url: string;
  readonly received: Received[];
  /** The status to answer with; undefined leaves the request unanswered. */
  answer: (request: Received) => number | undefined;
  /** Ends every request that is still waiting for an answer. */
  hangUp(): void;
  close(): Promise<void>;
}

export async function openReceiver(): Promise<Receiver> {
  const received: Received[] = [];
  const server: Server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (chunk: Buffer) => parts.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(parts).toString();
      const entry = {
        path: request.url ?? "",
        headers: request.headers,
        body,
        json: JSON.parse(body) as unknown,
      };
      received.push(entry);
      const status = receiver.answer(entry);
      if (status !== undefined) response.writeHead(status).end("a body that nobody may see again");
    });
  });
  await new Promise<void>((done) => void server.listen(0, "127.0.0.1", done));
  const receiver: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    answer: () => 200,
    hangUp: () => server.closeAllConnections(),
    close: () =>
      new Promise((done) => {
        server.closeAllConnections();
        server.close(() => done());
      }),
  };
  return receiver;
}
