from app.server.prelude import with_prelude


def test_our_script_is_the_first_of_the_page() -> None:
    page = with_prelude(b"<!doctype html><html><head><script>gradio</script></head><body><head></body>")
    assert page.startswith(b"<!doctype html><html><head><script>\n")
    assert page.index(b"requestAnimationFrame") < page.index(b"gradio")
    assert page.count(b"requestAnimationFrame") == with_prelude(b"<head>").count(b"requestAnimationFrame")


def test_what_has_no_head_stays_as_it_is() -> None:
    assert with_prelude(b"<p>words</p>") == b"<p>words</p>"
