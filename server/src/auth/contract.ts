/** What the settings of all auth methods share. */
import { z } from "zod";
import { moment, uuid } from "../platform/http/endpoint.ts";

export const trustedIp = z.object({ type: z.string(), prefix: z.number(), ipAddress: z.string() });

/** A bare address is the range of itself alone. */
function canonicalCidr(text: string): string | undefined {
  if (z.ipv4().safeParse(text).success) return `${text}/32`;
  if (z.ipv6().safeParse(text).success) return `${text}/128`;
  return z.cidrv4().safeParse(text).success || z.cidrv6().safeParse(text).success ? text : undefined;
}

const cidr = z.object({ ipAddress: z.string().max(64) }).transform(({ ipAddress }, context) => {
  const canonical = canonicalCidr(ipAddress.trim());
  if (canonical !== undefined) return canonical;
  context.addIssue({ code: "custom", path: ["ipAddress"], message: "must be an IP address or a CIDR range" });
  return z.NEVER;
});
export const trustedIps = z.array(cidr).min(1).max(100);

export const seconds = z.number().int().min(0).max(315_360_000);
export const uses = z.number().int().min(0).max(2_147_483_647);

export const sharedSettings = {
  id: uuid,
  identityId: uuid,
  accessTokenTTL: z.number(),
  accessTokenMaxTTL: z.number(),
  accessTokenNumUsesLimit: z.number(),
  accessTokenPeriod: z.number(),
  accessTokenTrustedIps: z.array(trustedIp),
  createdAt: moment,
  updatedAt: moment,
};
