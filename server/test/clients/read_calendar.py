"""A calendar as python3-icalendar understands it: from standard input to JSON."""

import json
import sys

from icalendar import Calendar

calendar = Calendar.from_ical(sys.stdin.buffer.read())
print(
    json.dumps(
        {
            "version": str(calendar["VERSION"]),
            "errors": [repr(error) for part in calendar.walk() for error in part.errors],
            "events": [
                {
                    "uid": str(event["UID"]),
                    "stamp": event.decoded("DTSTAMP").timestamp(),
                    "start": event.decoded("DTSTART").timestamp(),
                    "summary": str(event["SUMMARY"]),
                    "description": str(event["DESCRIPTION"]),
                    "url": str(event["URL"]),
                }
                for event in calendar.walk("VEVENT")
            ],
        }
    )
)
