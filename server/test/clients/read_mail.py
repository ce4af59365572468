"""A message as Python's email package understands it: from standard input to JSON."""

import email
import email.policy
import email.utils
import json
import sys

message = email.message_from_bytes(sys.stdin.buffer.read(), policy=email.policy.default)
parts = [part for part in message.walk() if not part.is_multipart()]
everything = [message, *message.walk()]
print(
    json.dumps(
        {
            "subject": message["subject"],
            "from": [address.addr_spec for address in message["from"].addresses],
            "to": [address.addr_spec for address in message["to"].addresses],
            "messageId": message["message-id"],
            "date": email.utils.parsedate_to_datetime(message["date"]).timestamp(),
            "autoSubmitted": message["auto-submitted"],
            "headers": [name.lower() for name in message.keys()],
            "type": message.get_content_type(),
            "parts": {part.get_content_type(): part.get_content() for part in parts},
            # What the parser found wrong, in the message, in its parts and in its headers.
            "defects": [repr(one) for part in everything for one in part.defects]
            + [repr(one) for value in message.values() for one in value.defects],
        }
    )
)
