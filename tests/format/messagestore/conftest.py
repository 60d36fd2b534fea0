"""What the tests of stores share."""

from __future__ import annotations

import pytest

from rmqindex import MessageStore, sample_store


@pytest.fixture
def messages():
    """The sample store, with times in UTC."""
    return MessageStore(sample_store(), time_zone="UTC")
