"""A script in a fork of the process that has made the imports."""

from pathlib import Path

from tests.forks import ROOT, fork


def test_a_script_has_its_arguments_its_files_and_the_imports(tmp_path: Path) -> None:
    script, log = tmp_path / "script.py", tmp_path / "log"
    script.write_text(
        "import os, sys, time\n"
        "print(sys.argv[1], __name__, os.getcwd(), 'gradio' in sys.modules, flush=True)\n"
        "print('a complaint', file=sys.stderr)\n"
        "print(sys.stdin.read() == '', flush=True)\n"
        "time.sleep(600)\n"
    )
    forked = fork(script, ["word"], log)
    assert forked.line() == f"word __main__ {ROOT} True"
    assert forked.line() == "True"
    assert log.read_text() == "a complaint\n"
    forked.end()
    assert forked.output.closed


def test_an_error_is_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("1 / 0\n")
    forked = fork(tmp_path / "script.py", [], tmp_path / "log")
    assert forked.line() == ""
    forked.end()
    assert "ZeroDivisionError" in (tmp_path / "log").read_text()
