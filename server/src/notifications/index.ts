export type { AnyChannel } from "./channels/channel.ts";
export { createMailer, type Mailer } from "./channels/smtp.ts";
export { SHOWN, type NoticeContent, type NoticeKind, type DeliveryOutcome } from "./contract.ts";
export { renderMail } from "./mail-template.model.ts";
export { createNotifications, Notifications } from "./service.ts";
