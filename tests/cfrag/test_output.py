"""What a person is told who waits for a command."""

import pytest

from cfrag import output


def test_who_interrupts_a_bar_is_told_what_holds_then(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), output.progress_bar():
        raise KeyboardInterrupt
    assert "run the same command again, which goes on from here" in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt), output.progress_bar("the Worker goes on by itself"):
        raise KeyboardInterrupt
    said = capsys.readouterr().err
    assert "the Worker goes on by itself" in said
    assert "again" not in said


def test_a_bar_that_nobody_interrupts_says_nothing_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    with output.progress_bar() as bar:
        bar.advance(bar.add_task("ingesting", total=1))
    assert "interrupted" not in capsys.readouterr().err
