"""pytest's fixture and marker for virtual GPUs.

@pytest.mark.virtual_gpus(8, memory="16GiB") runs one test with that many; the fixture
`virtual_gpus` gives two of 80 GiB where no marker says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

_MARKER = "virtual_gpus"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f'{_MARKER}(count, memory="80GiB"): run this test on a machine with virtual CUDA devices',
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        fixtures = getattr(item, "fixturenames", None)
        if fixtures is not None and item.get_closest_marker(_MARKER) and _MARKER not in fixtures:
            fixtures.insert(0, _MARKER)


@pytest.fixture
def virtual_gpus(request: pytest.FixtureRequest) -> Iterator[int]:
    """The number of virtual GPUs that torch has during this test."""
    from ddpdoctor.virtual.inprocess import gpus

    marker = request.node.get_closest_marker(_MARKER)
    arguments = marker.args if marker else ()
    count = arguments[0] if arguments else 2
    with gpus(count, *arguments[1:], **(marker.kwargs if marker else {})):
        yield count
