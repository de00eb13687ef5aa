import doctest
import importlib
import pkgutil

import theodolite.report


def test_every_example_in_a_docstring_runs() -> None:
    found = 0
    for module in pkgutil.walk_packages(theodolite.report.__path__, "theodolite.report."):
        result = doctest.testmod(importlib.import_module(module.name))
        assert result.failed == 0, module.name
        found += result.attempted
    assert found >= 10
