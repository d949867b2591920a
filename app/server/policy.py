"""The headers of every answer, first of all what a page may load and who may frame it.

A browser obeys the content-security policy, so each loosening has its reason here:

- `script-src 'unsafe-eval'`: Gradio compiles `js_on_load` and the `js` of events with `new Function`. Their text comes
  from our files, never from a person.
- `script-src 'sha256-…'`: the few scripts that Gradio writes into the page are allowed by the hash of what was sent, so
  that one which is added later does not run. There is no 'unsafe-inline'.
- `style-src 'unsafe-inline'`: Gradio sets its theme, our style sheet and sizes as inline styles.
- `img-src data: blob:`: the dot of Gradio's radio buttons is a picture inside its style sheet; figures are saved as
  pictures that the page makes itself.

Everything else comes from the page's own address, and `connect-src 'self'` keeps it from sending anything elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable

_INLINE_SCRIPT = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)
_UNUSED = ("accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "microphone", "payment", "usb")


def headers(frame_ancestors: Iterable[str] = ()) -> dict[str, str]:
    """The headers of every answer; `page_policy` adds to them for pages."""
    found = {
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "permissions-policy": ", ".join(f"{name}=()" for name in _UNUSED),
        "content-security-policy": f"default-src 'none'; {_framing(frame_ancestors)}",
    }
    return found if list(frame_ancestors) else found | {"x-frame-options": "SAMEORIGIN"}


def page_policy(html: bytes, frame_ancestors: Iterable[str] = ()) -> str:
    """The content-security policy of this very page, which allows the inline scripts that it was sent with."""
    hashes = sorted({_hash(script) for script in _INLINE_SCRIPT.findall(html)})
    return "; ".join(
        [
            "default-src 'none'",
            " ".join(["script-src 'self' 'unsafe-eval'", *hashes]),
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data: blob:",
            "font-src 'self'",
            "connect-src 'self'",
            "base-uri 'self'",
            "form-action 'self'",
            _framing(frame_ancestors),
        ]
    )


def _framing(ancestors: Iterable[str]) -> str:
    return " ".join(["frame-ancestors 'self'", *ancestors])


def _hash(script: bytes) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'"
