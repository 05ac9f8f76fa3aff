"""Progress of commands: steps that are done, and shares and remaining time of those at work."""

import time

from steropes.models.fitting.progress_messages import Progress as FitProgress
from steropes.models.fitting.progress_messages import counted_steps, shares_to
from steropes.studies.cli.progress_display import Progress, duration


def test_a_long_step_has_lines_with_share_and_remaining_time_in_a_log(capsys):
    with Progress(interval=0.05) as progress:
        progress("fitting")
        with counted_steps(4) as report:
            report(1)
            time.sleep(0.4)
        progress("writing")
    lines = capsys.readouterr().err.splitlines()
    at_work = [line for line in lines if line.startswith("· Fitting")]
    assert at_work
    assert all("25%, about" in line and line.endswith("left") for line in at_work)
    assert [line.split()[1] for line in lines if line.startswith("✓")] == ["Fitting", "Writing"]


def test_nothing_is_printed_if_quiet_and_the_last_step_of_a_failure_is_not_done(capsys):
    with Progress(quiet=True, interval=0.01) as progress:
        progress("fitting")
        time.sleep(0.05)
    assert capsys.readouterr().err == ""
    try:
        with Progress(interval=60) as progress:
            progress("reading")
            progress("fitting")
            raise ValueError
    except ValueError:
        pass
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("✓ Reading")


def test_counted_steps_hide_the_progress_of_fits_within_them():
    shares = []
    with shares_to(shares.append), counted_steps(2) as report:
        for done in (1, 2):
            with FitProgress(0) as fit:
                fit.report("variance", 0.3)
            report(done)
    assert shares == [0.0, 0.5, 1.0]
    with shares_to(shares.append), FitProgress(0) as fit:
        fit.report("variance", 0.3)
    assert shares[3:] == [0.0, 0.3]


def test_durations_change_to_minutes():
    assert [duration(x) for x in (0.04, 12.3, 150)] == ["0.0 s", "12 s", "2 min"]
