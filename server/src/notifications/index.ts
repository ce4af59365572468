export type { AnyChannel, Channel } from "./channels/channel.ts";
export { createMailer, type Mailer } from "./channels/smtp.ts";
export {
  SHOWN,
  type Notice,
  type NoticeCertificate,
  type NoticeContent,
  type NoticeKind,
  type Outcome,
} from "./contract.ts";
export { writeLetter } from "./letters/model.ts";
export { createNotifications, Notifications, type NotificationNeeds } from "./service.ts";
