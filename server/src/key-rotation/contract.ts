import { z } from "zod";
import { endpoint, moment, uuid } from "../platform/http/endpoint.ts";
import { projectRef } from "../projects/contract.ts";

const room = "secrets";
const params = z.object({ projectId: projectRef });
const rotation = z.object({ id: uuid, startedAt: moment, finishedAt: moment.nullable() });

export const rotateProjectKey = endpoint({
  id: "rotateProjectKey",
  method: "POST",
  path: "/api/v1/projects/{projectId}/keys/rotate",
  room,
  summary: "Give the project a new data key and re-encrypt its secrets with it, in the background",
  params,
  reply: z.object({ rotation }),
});

export const listKeyRotations = endpoint({
  id: "listKeyRotations",
  method: "GET",
  path: "/api/v1/projects/{projectId}/keys/rotations",
  room,
  summary: "The changes of the project's data key, newest first",
  params,
  reply: z.object({ rotations: z.array(rotation) }),
});
