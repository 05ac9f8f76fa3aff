"""A count of the tests that fit on the device of the option --device.

A fit that took the CPU instead would pass as well, so a run lists the files without a fit on it.
"""

from __future__ import annotations

from typing import ClassVar

import pytest

__all__ = ["DeviceUse"]


class DeviceUse:
    """A pytest plugin that counts the tests of each file that create a device's backend.

    Parameters
    ----------
    device : str

    Attributes
    ----------
    counts : dict
        Tests that ran and tests that created the backend, for each file.
    name_in_torch : str
        PyTorch's name of the device on which tests of tensors run, also without the option.
    """

    name_in_torch: ClassVar[str] = "cpu"

    def __init__(self, device: str) -> None:
        self.device, self.item = device, None
        self.counts: dict[str, tuple[int, int]] = {}

    @property
    def compares(self) -> bool:
        """Whether the running test compares the CPU with the device."""
        return self.item is not None and bool(self.item.get_closest_marker("both_devices"))

    def record(self) -> None:
        """Note that the running test creates the backend."""
        mark = ("device", self.device)
        if self.item is not None and mark not in self.item.user_properties:
            self.item.user_properties.append(mark)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Remember the running test, before its fixtures fit models."""
        self.item = item

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test, which may have run in a process of pytest-xdist."""
        if report.when == "call":
            file = report.nodeid.split("::")[0]
            ran, used = self.counts.get(file, (0, 0))
            on = any(name == "device" for name, _ in report.user_properties)
            self.counts[file] = ran + 1, used + on

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the files without a fit on the device."""
        ran, used = (sum(x) for x in zip((0, 0), *self.counts.values(), strict=True))
        without = sorted(file for file, (_, on) in self.counts.items() if not on)
        write = terminalreporter.write_line
        write(f"{used} of {ran} tests fitted on {self.device}; files without such a test:")
        write("\n".join(without) or "none")
