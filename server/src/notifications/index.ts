export type { AnyChannel, Channel, Outcome } from "./channel.ts";
export { SHOWN, type Notice, type NoticeCertificate, type NoticeContent, type NoticeKind } from "./notice.ts";
export { createNotifications, Notifications, type NotificationNeeds } from "./registry.ts";
export { createMailer, type Mailer } from "./smtp.ts";
