"""The headers of every answer, and the content-security policy of the page.

A browser obeys the policy, so each loosening has its reason here:

- `script-src 'unsafe-eval'`: Gradio compiles `js_on_load` and the `js` of events with `new Function`. Their text comes
  from our files, never from a person.
- `script-src 'sha256-…'`: the few scripts that Gradio writes into the page are allowed by the hash of what was sent, so
  that one which is added later does not run. There is no 'unsafe-inline'.
- `style-src 'unsafe-inline'`: Gradio sets its theme, our style sheet and sizes as inline styles.
- `img-src data: blob:`: the dot of Gradio's radio buttons is a picture inside its style sheet; figures are saved as
  pictures that the page makes itself.

Everything else comes from the page's own address, and `connect-src 'self'` keeps it from sending anything elsewhere.
"""

import base64
import hashlib
from html.parser import HTMLParser

_UNUSED = ("accelerometer", "camera", "display-capture", "geolocation", "gyroscope", "microphone", "payment", "usb")
_PAGE = (
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; "
    "base-uri 'self'; form-action 'self'"
)


def common_headers(framed_by: str) -> dict[str, str]:
    """The headers of every answer; a page has `page_policy` besides."""
    headers = {
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "permissions-policy": ", ".join(f"{name}=()" for name in _UNUSED),
        "content-security-policy": f"default-src 'none'; {_framing(framed_by)}",
    }
    return headers if framed_by else headers | {"x-frame-options": "SAMEORIGIN"}


def page_policy(page: bytes, framed_by: str) -> str:
    """The content-security policy of this very page, which allows the inline scripts that it was sent with."""
    reader = _InlineScripts()
    reader.feed(page.decode(errors="replace"))
    hashes = sorted({_hash(script) for script in reader.scripts})
    scripts = " ".join(["script-src 'self' 'unsafe-eval'", *hashes])
    return f"default-src 'none'; {scripts}; {_PAGE}; {_framing(framed_by)}"


class _InlineScripts(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.scripts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag == "script" and "src" not in dict(attrs)
        if self._inside:
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._inside = False


def _framing(site: str) -> str:
    return f"frame-ancestors 'self' {site}".rstrip()


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
