import json

from app.browser.scripts import page_script
from app.server.prelude import with_prelude
from mars.decoders import TABLE


def test_our_module_runs_before_the_others_and_below_the_base_address() -> None:
    page = with_prelude(
        b'<head><base href="/lens/"><script>words</script><script type="module" src="a"></script>'
        b'<script type="module" src="b"></script></head>'
    ).decode()
    ours = f'<script type="module" src="{page_script()}"></script>'
    assert page.index("<base") < page.index(ours) < page.index('src="a"')
    assert page.count(ours) == 1


def test_the_table_of_the_decoders_is_in_the_page_as_data() -> None:
    page = with_prelude(b'<head><script type="module" src="a"></script></head>').decode()
    table = page.partition('<script type="application/json" id="lens-decoders">')[2]
    assert json.loads(table.partition("</script>")[0])["decoders"].keys() == TABLE.keys()


def test_what_has_no_module_stays_as_it_is() -> None:
    assert with_prelude(b"<p>words</p>") == b"<p>words</p>"
