"""A mail server that is not ours (aiosmtpd): prints its port, then one line of JSON per message it takes.

Arguments: a JSON object with, all optional, "certificate" and "key" (files: STARTTLS is then demanded) and
"user" and "password" (a login is then demanded, and accepted only over TLS).
"""

import asyncio
import base64
import json
import ssl
import sys

from aiosmtpd.smtp import SMTP, AuthResult

wish = json.loads(sys.argv[1])


def say(value):
    print(json.dumps(value), flush=True)


class Box:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("gone"):
            return "550 5.1.1 No such mailbox here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        login = session.auth_data.login.decode() if session.authenticated else None
        say(
            {
                "from": envelope.mail_from,
                "to": envelope.rcpt_tos,
                "raw": base64.b64encode(envelope.original_content).decode(),
                "isEncrypted": session.ssl is not None,
                "user": login,
            }
        )
        return "250 OK"


def is_right(server, session, envelope, mechanism, given):
    fits = given.login.decode() == wish["user"] and given.password.decode() == wish["password"]
    return AuthResult(success=fits, handled=fits, auth_data=given)


def protocol():
    context = None
    if "certificate" in wish:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(wish["certificate"], wish["key"])
    return SMTP(
        Box(),
        hostname="mail.example.com",
        tls_context=context,
        require_starttls=context is not None,
        auth_required="user" in wish,
        auth_require_tls=True,
        authenticator=is_right if "user" in wish else None,
    )


async def main():
    server = await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)
    say({"port": server.sockets[0].getsockname()[1]})
    await server.serve_forever()


asyncio.run(main())
