/**
 * Who asks. Every use case takes an actor first; there is no anonymous path into a service. The `caller` part
 * says from where, for the audit trail; it is absent for work the house does unasked.
 */
export interface Caller {
  readonly requestId: string;
  readonly ip: string;
  readonly userAgent: string;
  /** Has the connection been given up? Nobody reads the answer then, and long work for it need not begin. */
  readonly isGone?: () => boolean;
}

export interface IdentityActor {
  readonly kind: "identity";
  readonly id: string;
  readonly name: string;
  readonly orgId: string;
  readonly tokenId: string;
  readonly authMethod: string;
  readonly isInstanceAdmin: boolean;
  readonly caller: Caller;
}

export interface UserActor {
  readonly kind: "user";
  readonly id: string;
  readonly name: string;
  /** Absent until the session has selected an organisation. */
  readonly orgId: string | null;
  readonly tokenId: string;
  readonly authMethod: string;
  readonly isInstanceAdmin: boolean;
  readonly caller: Caller;
}

interface SystemActor {
  readonly kind: "system";
  readonly id: null;
  readonly name: string;
  readonly orgId: null;
  /** Present when the house acts on a request whose sender it does not know: a refused login. */
  readonly caller?: Caller;
}

export type MemberActor = IdentityActor | UserActor;
export type Actor = MemberActor | SystemActor;

/** Throws what a caller who was let in would be answered now: whoever was shut out meanwhile does nothing more. */
export type Confirm = () => Promise<void>;

export const systemActor = (name: string, caller?: Caller): SystemActor => ({
  kind: "system",
  id: null,
  name,
  orgId: null,
  ...(caller ? { caller } : {}),
});
