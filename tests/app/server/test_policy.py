import base64
import hashlib

from app.server.answer import headers, page_policy

PAGE = b"""<html><script>one()</script><SCRIPT type="module" src="./a.js"></SCRIPT>
<script data-x>
two()
</script><p onclick="three()">&lt;script&gt;</p></html>"""


def directives(policy: str) -> dict[str, list[str]]:
    return {words[0]: words[1:] for words in (part.split() for part in policy.split("; "))}


def hash_of(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def test_only_the_scripts_of_the_page_itself_are_allowed_inline() -> None:
    scripts = directives(page_policy(PAGE))["script-src"]
    assert scripts[:2] == ["'self'", "'unsafe-eval'"]
    assert sorted(scripts[2:]) == sorted([hash_of("one()"), hash_of("\ntwo()\n")])


def test_everything_comes_from_the_page_and_goes_to_it() -> None:
    found = directives(page_policy(PAGE))
    assert found["default-src"] == ["'none'"]
    assert found["connect-src"] == found["form-action"] == found["base-uri"] == ["'self'"]
    assert "'unsafe-inline'" not in found["script-src"]
    assert not any(word.startswith(("http", "*")) for words in found.values() for word in words)


def test_nobody_else_frames_the_page_unless_named() -> None:
    assert directives(page_policy(PAGE))["frame-ancestors"] == ["'self'"]
    assert headers()["x-frame-options"] == "SAMEORIGIN"
    site = ("https://huggingface.co",)
    assert directives(page_policy(PAGE, site))["frame-ancestors"] == ["'self'", *site]
    assert directives(headers(site)["content-security-policy"])["frame-ancestors"] == ["'self'", *site]
    assert "x-frame-options" not in headers(site)


def test_what_is_no_page_may_load_nothing() -> None:
    found = headers()
    assert directives(found["content-security-policy"])["default-src"] == ["'none'"]
    assert found["x-content-type-options"] == "nosniff"
    assert found["referrer-policy"] == "no-referrer"
