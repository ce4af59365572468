import type { Clock } from "../platform/clock.ts";
import type { Keyring } from "../platform/crypto/index.ts";
import type { Database } from "../platform/db/index.ts";
import type { Log } from "../platform/log.ts";
import type { Notifications } from "../notifications/index.ts";
import type { Permissions } from "../permissions/index.ts";
import type { Projects } from "../projects/index.ts";
import { createCalendars } from "./calendar/service.ts";
import { createChannels } from "./channels.ts";
import { createDeliveries } from "./deliveries/service.ts";
import { createDeliveryHistory } from "./deliveries/history.ts";
import { createAlertWork, type AlertWork } from "./jobs.ts";
import { createMatches } from "./matches.ts";
import { createPendingNotices } from "./notices/service.ts";
import { alertRoutes } from "./routes.ts";
import { createScopes } from "./scopes.ts";
import { createAlerts } from "./service.ts";
import type { Route } from "../platform/http/index.ts";

export interface AlertRoomNeeds {
  readonly db: Database;
  readonly clock: Clock;
  readonly log: Log;
  readonly keyring: Keyring;
  readonly permissions: Permissions;
  readonly projects: Projects;
}

interface AlertRoomSettings {
  readonly notifications: Notifications;
  /** Where users reach this server: messages link there. */
  readonly publicUrl: string;
  readonly chance?: () => number;
  /** When the last delivery has ended: connections to mail servers can be closed. */
  readonly onStop?: () => void;
}

export type { AlertWork };

/** The room has sub-rooms that need each other; they are opened here, so that `house.ts` sees one. */
export function openAlerts(
  needs: AlertRoomNeeds,
  settings: AlertRoomSettings,
): { readonly routes: Route[]; readonly work: AlertWork } {
  const { db, clock, log, permissions } = needs;
  const { notifications, publicUrl } = settings;
  const scopes = createScopes(needs);
  const channels = createChannels({ ...needs, notifications });
  const alerts = createAlerts({ db, clock, permissions, scopes, channels });
  const deliveries = createDeliveries({
    db,
    clock,
    log,
    notifications,
    channels,
    ...(settings.chance ? { chance: settings.chance } : {}),
  });
  const resolvingTypes = notifications.types.filter((type) => notifications.get(type)?.resolves);
  const notices = createPendingNotices({ db, clock, publicUrl, resolvingTypes });
  const routes = alertRoutes({
    alerts,
    matches: createMatches({ db, clock, permissions, scopes, alerts }),
    history: createDeliveryHistory(
      { db, clock, alerts, channels, notifications, deliveries, permissions },
      { scopes, publicUrl },
    ),
    calendars: createCalendars({ ...needs, scopes, publicUrl }),
    channels,
    publicUrl,
  });
  return {
    routes,
    work: createAlertWork({
      clock,
      log,
      onCommitted: db.onCommitted,
      notices,
      deliveries,
      onStop: settings.onStop,
    }),
  };
}
