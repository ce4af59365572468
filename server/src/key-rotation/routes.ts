import { serve, type Route, inProject } from "../platform/http/index.ts";
import * as contract from "./contract.ts";
import type { KeyRotations } from "./service.ts";

export const rotationRoutes = (rotations: KeyRotations): Route[] => [
  serve(
    contract.rotateProjectKey,
    async ({ actor, params }) => ({
      rotation: await rotations.rotate(actor, params.projectId),
    }),
    inProject("edit", "kms"),
  ),
  serve(contract.listKeyRotations, async ({ actor, params }) => ({
    rotations: await rotations.list(actor, params.projectId),
  })),
];
