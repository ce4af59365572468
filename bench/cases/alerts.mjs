// Alerts: create one, against the two inserts that this is.
import { openWorld } from "../world.mjs";

const PATH = "/api/v1/cert-manager/alerts";
const INSERT_ALERT = `INSERT INTO alerts (id, org_id, project_id, name, description, event_type, alert_before, filters, enabled, is_daily, gathered_at, created_at, updated_at)
  VALUES ($1,$2,$3,$4,'','expiration','30d','[]',true,false,$5,$5,$5)`;
const INSERT_CHANNEL = `INSERT INTO alert_channels (id, alert_id, position, channel_type, enabled, destination, data_key_id, settings, created_at, updated_at)
  VALUES ($1,$2,0,'email',true,'ops@example.com',$3,$4,$5,$5)`;

export async function prepare({ against } = {}) {
  const world = await openWorld(against);
  const { project } = await world.call("POST", "/api/v1/projects", {
    projectName: `Bench ${Date.now()}`,
    type: "cert-manager",
  });
  const alert = (name) => ({
    projectId: project.id,
    name,
    eventType: "expiration",
    alertBefore: "30d",
    filters: [],
    channels: [{ channelType: "email", config: { recipients: ["ops@example.com"] } }],
  });
  const shape = await world.call("POST", PATH, alert("shape"));
  const limit = await world.startLimit({
    answers: { alert: shape.text },
    programs: {
      alert: {
        writes: [
          [INSERT_ALERT, ["$same", world.orgId, project.id, "$n", "$now"]],
          [INSERT_CHANNEL, ["$uuid", "$same", "$uuid", "$sealed", "$now"]],
        ],
      },
    },
  });
  return {
    ...world,
    limit,
    cases: [
      {
        name: "create alert",
        keyward: (n) => ({
          method: "POST",
          path: PATH,
          headers: world.headers,
          body: alert(`alert-${n}-${Date.now()}`),
        }),
        limit: (n) => ({ method: "POST", path: "/alert", body: { n } }),
      },
    ],
  };
}
