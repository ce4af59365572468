// A mailbox for the demo: a real SMTP server on loopback that prints what it gets instead of keeping it.
import { SMTPServer } from "smtp-server";

export function openMailbox(show) {
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ["STARTTLS", "AUTH"],
    logger: false,
    onData(stream, session, done) {
      let text = "";
      stream.on("data", (chunk) => (text += chunk.toString()));
      stream.on("end", () => {
        show(session.envelope.rcptTo.map((to) => to.address).join(", "), text);
        done();
      });
    },
  });
  return new Promise((resolve) => {
    const listening = server.listen(0, "127.0.0.1", () =>
      resolve(`smtp://127.0.0.1:${listening.address().port}`),
    );
  });
}

/** What a person would read first: sender, subject and the plain text part. */
export function readable(message) {
  const [head = "", ...rest] = message.split("\r\n\r\n");
  const header = (name) =>
    new RegExp(`^${name}: (.*(?:\\r\\n[ \\t].*)*)`, "im").exec(head)?.[1]?.replace(/\r\n\s+/g, " ") ?? "";
  const plain =
    /content-type: text\/plain[\s\S]*?\r\n\r\n([\s\S]*?)\r\n--/i.exec(message)?.[1] ?? rest.join("\n\n");
  const decoded = plain
    .replace(/=\r\n/g, "")
    .replace(/=([0-9A-F]{2})/g, (_all, hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  const text = Buffer.from(decoded, "latin1").toString("utf8").replace(/\r\n/g, "\n").trim();
  return `From: ${header("from")}\nSubject: ${decodeWords(header("subject"))}\n\n${text}`;
}

/** RFC 2047 words, as far as our own mails use them. */
function decodeWords(text) {
  return text.replace(/\?=\s+=\?/g, "?==?").replace(/=\?utf-8\?([qb])\?(.*?)\?=/gi, (_all, kind, word) => {
    if (kind.toLowerCase() === "b") return Buffer.from(word, "base64").toString();
    const bytes = word
      .replaceAll("_", " ")
      .replace(/=([0-9A-F]{2})/gi, (_hex, code) => String.fromCharCode(Number.parseInt(code, 16)));
    return Buffer.from(bytes, "latin1").toString("utf8");
  });
}
