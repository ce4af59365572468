"""A receiver's check, written from the text of the Standard Webhooks specification and nothing else.

Standard input: {"headers": {...}, "body": "...", "secret": "whsec_..."}. Prints true or false.

The text: the content to be signed is the message id, the timestamp and the payload as it was received, joined by
full stops. The secret is what follows the prefix "whsec_", in base64. The signature header is a list, separated by
spaces, of a version identifier, a comma and a signature in base64; "v1" is HMAC-SHA256. A timestamp too far from
now, in the past or in the future, is refused. Signatures are compared in constant time.
"""

import base64
import hashlib
import hmac
import json
import sys
import time

TOLERANCE_SECONDS = 5 * 60


def verify(headers, body, secret):
    headers = {name.lower(): value for name, value in headers.items()}
    try:
        identifier = headers["webhook-id"]
        timestamp = headers["webhook-timestamp"]
        signatures = headers["webhook-signature"]
    except KeyError:
        return False
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > TOLERANCE_SECONDS:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    content = b".".join([identifier.encode(), timestamp.encode(), body.encode()])
    expected = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest())
    versions = [entry.partition(",") for entry in signatures.split(" ")]
    return any(name == "v1" and hmac.compare_digest(value.encode(), expected) for name, _, value in versions)


given = json.loads(sys.stdin.read())
print(json.dumps(verify(given["headers"], given["body"], given["secret"])))
