/**
 * People for the tests of this room, made the way people are made: invited, and accepted. Passwords are slow on
 * purpose, so tests make few people and let them change roles or join further organisations.
 */
import { withClient } from "./postgres.ts";
import { unique } from "./builders.ts";
import type { Answer, Client, Tenant, TestHouse } from "./harness.ts";

export const PASSWORD = "a pass phrase of some length";

export interface Person extends Client {
  readonly userId: string;
  readonly email: string;
  /** In the organisation that invited. */
  readonly membershipId: string;
  readonly token: string;
}

export const anAddress = (): string => `${unique("person")}@example.com`;

export function expectStatus(answer: Answer, status: number): Answer["body"] {
  if (answer.status !== status) {
    throw new Error(`expected ${status}, got ${answer.status}: ${JSON.stringify(answer.body)}`);
  }
  return answer.body;
}

/** All of an error that must not differ between two refusals. */
export const refusalOf = ({ status, body }: Answer) => ({ status, error: body.error, message: body.message });

export async function invite(client: Client, more: Record<string, unknown> = {}): Promise<string> {
  const answer = await client.post("/api/v1/organization/invitations", { email: anAddress(), ...more });
  return expectStatus(answer, 200).inviteToken;
}

export const accept = (t: TestHouse, token: string, more: Record<string, unknown> = {}): Promise<Answer> =>
  t.anonymous.post("/api/v1/auth/accept-invitation", { token, password: PASSWORD, ...more });

export async function sessionIn(t: TestHouse, loginToken: string, organizationId: string): Promise<string> {
  const answer = await t.as(loginToken).post("/api/v3/auth/select-organization", { organizationId });
  return expectStatus(answer, 200).token;
}

export async function membershipIdOf(client: Client, email: string): Promise<string> {
  const answer = await client.get(`/api/v1/organization/members?search=${encodeURIComponent(email)}`);
  return expectStatus(answer, 200).members[0].id;
}

/** A new person, or (with the address of one) a known person in a further organisation. */
export async function aPerson(
  t: TestHouse,
  tenant: Tenant,
  { email = anAddress(), ...more }: Record<string, unknown> & { readonly email?: string } = {},
): Promise<Person> {
  const accepted = expectStatus(await accept(t, await invite(tenant, { ...more, email })), 200);
  const token = await sessionIn(t, accepted.accessToken, tenant.orgId);
  const membershipId = await membershipIdOf(tenant, email);
  return { ...t.as(token), userId: accepted.user.id, email, membershipId, token };
}

/** Lets a member go on with another role. */
export async function giveRole(client: Client, person: Person, role: string): Promise<void> {
  expectStatus(await client.patch(`/api/v1/organization/members/${person.membershipId}`, { role }), 200);
}

export async function anOrgRole(client: Client, permissions: readonly unknown[]): Promise<string> {
  const answer = await client.post("/api/v1/organization/roles", {
    slug: unique("role"),
    name: "A role",
    permissions,
  });
  return expectStatus(answer, 200).role.slug;
}

export const look = (t: TestHouse, text: string, values: readonly unknown[] = []): Promise<unknown[]> =>
  withClient(t.database.server, t.database.connection.database, async (client) => {
    const { rows } = await client.query(text, [...values]);
    return rows;
  });

/**
 * A race with a certain outcome: `first` is done in a transaction of its own that commits only when the request
 * waits for it, or has ended without waiting.
 */
export const against = (
  t: TestHouse,
  first: readonly [text: string, values: readonly unknown[]][],
  request: () => Promise<Answer>,
): Promise<Answer> =>
  withClient(t.database.server, t.database.connection.database, async (client) => {
    await client.query("BEGIN");
    for (const [text, values] of first) await client.query(text, [...values]);
    let hasEnded = false;
    const asked = request().finally(() => {
      hasEnded = true;
    });
    const waiting =
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while (!hasEnded && (await look(t, waiting)).length === 0);
    await client.query("COMMIT");
    return asked;
  });

export async function eventsOf(t: TestHouse, orgId: string): Promise<string[]> {
  const rows = await look(t, "SELECT event FROM audit_log WHERE org_id = $1 ORDER BY at, id", [orgId]);
  return rows.map((row) => (row as { event: string }).event);
}
