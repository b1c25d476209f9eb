"""A signal stops a command between two steps, never within one."""

from __future__ import annotations

import signal

import pytest

from tq.cli.interruptions import Interruptions


@pytest.fixture(autouse=True)
def handlers_are_put_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    yield
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


def test_ctrl_c_waits_for_the_next_check():
    with Interruptions() as interruptions:
        interruptions.check()
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)  # impatience changes nothing
        with pytest.raises(KeyboardInterrupt):
            interruptions.check()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=["SIGTERM", "SIGHUP"])
def test_other_signals_end_the_command_with_their_number(number: signal.Signals, code: int):
    with Interruptions() as interruptions:
        signal.raise_signal(number)
        with pytest.raises(SystemExit) as ended:
            interruptions.check()
    assert ended.value.code == code


def test_a_signal_that_the_shell_wants_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interruptions() as interruptions:
            signal.raise_signal(signal.SIGHUP)
            interruptions.check()
    finally:
        signal.signal(signal.SIGHUP, before)
