/**
 * The caller of a use case, its first argument; there is no anonymous path into a service. The `caller` part
 * says from where, for the audit log; it is absent for background jobs.
 */
export interface Caller {
  readonly requestId: string;
  readonly ip: string;
  readonly userAgent: string;
  /** Has the client disconnected? Then nobody reads the answer, and long work for it need not begin. */
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
  /** Present when the server acts on a request whose sender is unknown: a refused login. */
  readonly caller?: Caller;
}

export type MemberActor = IdentityActor | UserActor;
export type Actor = MemberActor | SystemActor;

/** Throws the problem if the caller would be refused now: one who lost access meanwhile does nothing more. */
export type Confirm = () => Promise<void>;

export const systemActor = (name: string, caller?: Caller): SystemActor => ({
  kind: "system",
  id: null,
  name,
  orgId: null,
  ...(caller ? { caller } : {}),
});
