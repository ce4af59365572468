/**
 * What an organisation may use. Its licences are read and their signatures checked once, then remembered until a
 * fact says that they changed; whether one is running is decided by the clock at every question, so an expiry
 * needs nobody to notice it.
 */
import type { Actor, MemberActor } from "../platform/actor.ts";
import type { Clock } from "../platform/clock.ts";
import type { Keyring } from "../platform/crypto/index.ts";
import { isUniqueViolation, type Db, type Query, type Tx, MAINTENANCE_TURN } from "../platform/db/index.ts";
import { newId } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import { createFactCache, type FactCache, type Tail } from "../platform/outbox/index.ts";
import { licenceRequired, notFound } from "../platform/problem.ts";
import { findOrganization } from "../organizations/index.ts";
import { orgOf, type Permissions } from "../permissions/index.ts";
import type { IssuedLicenceView, LicenceFeature, NewLicence, OrganizationLicenceView } from "./contract.ts";
import { parseLicence, type LicencePayload } from "./document/contract.ts";
import { isSignedByOneOf, publicKeyFromDer } from "./document/model.ts";
import { licenceChanged } from "./events.ts";
import { createIssuer, type LicenceIssuer } from "./issuer.ts";
import * as model from "./model.ts";
import * as store from "./store.ts";

interface LicenceNeeds {
  readonly db: Db;
  readonly clock: Clock;
  readonly tail: Tail;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
  readonly log: Log;
}

export interface Licences {
  /** At every start: the instance's signing key is known as an issuer and, with a data folder, lies there as a file. */
  ensureIssuer(dataDir: string | undefined): Promise<void>;
  /** Signs and installs inside the caller's transaction. Ed25519 takes some 50 µs: nothing waits on it. */
  issueFor(tx: Tx, actor: Actor, orgId: string | null, terms: model.LicenceTerms): Promise<IssuedLicenceView>;
  has(orgId: string, feature: LicenceFeature): Promise<boolean>;
  /** Throws the 400 that every unlicensed feature answers. */
  require(orgId: string, feature: LicenceFeature): Promise<void>;
  show(actor: MemberActor): Promise<OrganizationLicenceView>;
  install(actor: MemberActor, document: string): Promise<OrganizationLicenceView>;
  remove(actor: MemberActor): Promise<OrganizationLicenceView>;
  issue(actor: MemberActor, asked: NewLicence): Promise<IssuedLicenceView>;
  list(
    actor: MemberActor,
    page: { readonly offset: number; readonly limit: number },
  ): Promise<{ licences: IssuedLicenceView[]; totalCount: number }>;
  revoke(actor: MemberActor, licenceId: string): Promise<IssuedLicenceView>;
}

export const createLicences = (needs: LicenceNeeds): Licences => new LicenceService(needs);

const CACHED_ORGANIZATIONS = 20_000;
const MAX_REPORTED = 1000;

class LicenceService implements Licences {
  readonly #needs: LicenceNeeds;
  readonly #issuer: LicenceIssuer;
  readonly #cache: FactCache<readonly model.Licence[]>;
  readonly #reported = new Set<string>();

  constructor(needs: LicenceNeeds) {
    this.#needs = needs;
    this.#issuer = createIssuer(needs);
    this.#cache = createFactCache(needs.tail, CACHED_ORGANIZATIONS);
    needs.tail.onInvalidate((fact) => {
      if (!licenceChanged.is(fact)) return;
      if (fact.data.orgId === null) this.#cache.clear();
      else this.#cache.drop(fact.data.orgId);
    });
  }

  ensureIssuer(dataDir: string | undefined): Promise<void> {
    return this.#issuer.ensure(dataDir);
  }

  async issueFor(
    tx: Tx,
    actor: Actor,
    orgId: string | null,
    terms: model.LicenceTerms,
  ): Promise<IssuedLicenceView> {
    const at = this.#needs.clock.now();
    const payload: LicencePayload = {
      id: newId(at.getTime()),
      orgId,
      plan: terms.plan,
      features: [...new Set(terms.features)].sort(),
      notBefore: terms.notBefore.toISOString(),
      notAfter: terms.notAfter.toISOString(),
      issuedAt: at.toISOString(),
    };
    const row = { id: payload.id, orgId, document: this.#issuer.sign(payload), installedAt: at };
    await store.insertLicence(tx, row);
    this.#state(tx, actor, "issue-licence", payload);
    return toIssued({ ...row, revokedAt: null }, model.licenceFrom(payload, null), at.getTime());
  }

  async has(orgId: string, feature: LicenceFeature): Promise<boolean> {
    const licences = await this.#licencesOf(orgId);
    const now = this.#needs.clock.millis();
    return licences.some((licence) => licence.features.includes(feature) && model.isActive(licence, now));
  }

  async require(orgId: string, feature: LicenceFeature): Promise<void> {
    if (!(await this.has(orgId, feature))) throw licenceRequired(feature);
  }

  show(actor: MemberActor): Promise<OrganizationLicenceView> {
    return this.#standing(orgOf(actor));
  }

  async install(actor: MemberActor, document: string): Promise<OrganizationLicenceView> {
    const { db, permissions, clock } = this.#needs;
    const orgId = orgOf(actor);
    await permissions.requireInOrganization(actor, { action: "edit", subject: "licence" });
    const payload = await this.#check(orgId, document);
    if (!(await this.#isInstalled(payload.id, document))) {
      try {
        await db.write(async (tx) => {
          await store.insertLicence(tx, {
            id: payload.id,
            orgId: payload.orgId,
            document,
            installedAt: clock.now(),
          });
          this.#state(tx, actor, "install-licence", payload);
        });
      } catch (error) {
        // Someone installed it a moment earlier: then it is there, unless it was revoked in that moment too.
        if (!isUniqueViolation(error) || !(await this.#isInstalled(payload.id, document))) throw error;
      }
    }
    return this.#standing(orgId);
  }

  async remove(actor: MemberActor): Promise<OrganizationLicenceView> {
    const { db, permissions, clock } = this.#needs;
    const orgId = orgOf(actor);
    await permissions.requireInOrganization(actor, { action: "edit", subject: "licence" });
    await db.write(async (tx) => {
      const revoked = await store.revokeLicencesOf(tx, orgId, clock.now());
      if (revoked.length === 0) throw notFound("A licence of this organisation");
      tx.audit(actor, {
        event: "revoke-licence",
        orgId,
        metadata: { licenceIds: revoked.map((row) => row.id) },
      });
      tx.emit(licenceChanged({ orgId }));
    });
    return this.#standing(orgId);
  }

  async issue(actor: MemberActor, asked: NewLicence): Promise<IssuedLicenceView> {
    const { db, permissions, clock } = this.#needs;
    permissions.requireInstanceAdmin(actor);
    const orgId = asked.organizationId?.toLowerCase() ?? null;
    const terms = model.termsOf(asked, clock.now());
    return db.write(async (tx) => {
      if (orgId !== null && !(await findOrganization(tx, orgId))) throw notFound("The organisation", orgId);
      return this.issueFor(tx, actor, orgId, terms);
    });
  }

  async list(actor: MemberActor, page: { readonly offset: number; readonly limit: number }) {
    this.#needs.permissions.requireInstanceAdmin(actor);
    const { rows, totalCount } = await this.#needs.db.read(
      (q) => store.pageOfLicences(q, page.limit, page.offset),
      MAINTENANCE_TURN,
    );
    return { licences: await this.#view(rows), totalCount };
  }

  async revoke(actor: MemberActor, licenceId: string): Promise<IssuedLicenceView> {
    const { db, permissions, clock } = this.#needs;
    permissions.requireInstanceAdmin(actor);
    const before = await db.read((q) => store.findLicence(q, licenceId));
    if (!before) throw notFound("The licence", licenceId);
    // Revoking twice is no change; the first moment stands.
    const row =
      before.revokedAt !== null
        ? before
        : await db.write(async (tx) => {
            const revoked = await store.revokeLicence(tx, licenceId, clock.now());
            tx.audit(actor, {
              event: "revoke-licence",
              orgId: before.orgId ?? actor.orgId,
              metadata: { licenceIds: [before.id] },
            });
            tx.emit(licenceChanged({ orgId: before.orgId }));
            return revoked ?? (await store.findLicence(tx, licenceId)) ?? before;
          });
    const [view] = await this.#view([row]);
    if (!view) throw notFound("The licence", licenceId);
    return view;
  }

  /** The same three things follow from every new licence. One for all organisations is filed under its maker's. */
  #state(tx: Tx, actor: Actor, event: string, payload: LicencePayload): void {
    const { id: licenceId, orgId, plan, features, notBefore, notAfter } = payload;
    const scope = orgId === null ? "instance" : "organization";
    tx.audit(actor, {
      event,
      orgId: orgId ?? actor.orgId,
      metadata: { licenceId, scope, plan, features, notBefore, notAfter },
    });
    tx.emit(licenceChanged({ orgId }));
  }

  async #standing(orgId: string): Promise<OrganizationLicenceView> {
    return model.toOrganizationLicence(await this.#licencesOf(orgId), this.#needs.clock.millis());
  }

  async #licencesOf(orgId: string): Promise<readonly model.Licence[]> {
    const load = () =>
      this.#needs.db.read(async (q) => this.#verify(q, await store.licencesOfOrganization(q, orgId)));
    const licences = await this.#cache.get(orgId, async () =>
      (await load()).filter((licence) => licence !== undefined),
    );
    return licences ?? [];
  }

  async #check(orgId: string, document: string): Promise<LicencePayload> {
    const parsed = parseLicence(document);
    if (!parsed) throw model.licenceUnreadable();
    const keys = (await this.#needs.db.read(store.issuerKeys)).map(publicKeyFromDer);
    if (!isSignedByOneOf(parsed, keys)) throw model.licenceUnknownIssuer();
    const { payload } = parsed;
    if (payload.orgId !== null && payload.orgId !== orgId) throw model.licenceOfAnother();
    const notAfter = new Date(payload.notAfter);
    if (notAfter <= this.#needs.clock.now()) throw model.licenceOver(notAfter);
    return payload;
  }

  async #isInstalled(id: string, document: string): Promise<boolean> {
    const known = await this.#needs.db.read((q) => store.findLicence(q, id));
    if (!known) return false;
    if (known.document !== document) throw model.licenceIdTaken();
    if (known.revokedAt !== null) throw model.licenceRevokedAlready();
    return true;
  }

  async #view(rows: readonly store.LicenceRow[]): Promise<IssuedLicenceView[]> {
    const licences = await this.#needs.db.read((q) => this.#verify(q, rows));
    const now = this.#needs.clock.millis();
    return rows.map((row, index) => toIssued(row, licences[index], now));
  }

  /** Undefined in the place of every row that no issuer signed as it stands. */
  async #verify(q: Query, rows: readonly store.LicenceRow[]): Promise<(model.Licence | undefined)[]> {
    if (rows.length === 0) return [];
    const keys = (await store.issuerKeys(q)).map(publicKeyFromDer);
    return rows.map((row) => {
      const parsed = parseLicence(row.document);
      // A good document in the wrong row is as forged as a bad one in the right row.
      const isWhole =
        parsed?.payload.id === row.id && parsed.payload.orgId === row.orgId && isSignedByOneOf(parsed, keys);
      if (parsed && isWhole) return model.licenceFrom(parsed.payload, row.revokedAt);
      this.#report(row.id);
      return undefined;
    });
  }

  #report(licenceId: string): void {
    if (this.#reported.has(licenceId) || this.#reported.size >= MAX_REPORTED) return;
    this.#reported.add(licenceId);
    this.#needs.log.error(
      { licenceId },
      "a stored licence is not what an issuer of this instance signed; it counts as none",
    );
  }
}

function toIssued(row: store.LicenceRow, licence: model.Licence | undefined, now: number): IssuedLicenceView {
  const { id, document, installedAt, revokedAt } = row;
  const stored = { id, organizationId: row.orgId, document, installedAt, revokedAt };
  if (!licence)
    return {
      ...stored,
      plan: null,
      features: [],
      notBefore: null,
      notAfter: null,
      issuedAt: null,
      status: "invalid",
    };
  const { plan, features, notBefore, notAfter, issuedAt } = licence;
  return {
    ...stored,
    plan,
    features: [...features],
    notBefore,
    notAfter,
    issuedAt,
    status: model.statusOf(licence, now),
  };
}
