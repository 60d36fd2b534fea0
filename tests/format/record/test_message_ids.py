"""What message ids say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rmqindex import (
    GrpcMessageId,
    OffsetMessageId,
    RemotingMessageId,
    decode_message_id,
    decode_offset_msg_id,
    decode_uniq_key,
)


def millis(*parts, zone=UTC):
    """Return a date as epoch milliseconds."""
    return int(datetime(*parts, tzinfo=zone).timestamp() * 1000)


def test_an_offset_id_names_host_and_offset():
    """IPv4: 32 digits."""
    found = decode_offset_msg_id("0A00000100002A9F00000000000000CA")
    assert found == OffsetMessageId(bytes([10, 0, 0, 1]), 10911, 202)
    assert found.store_host == "10.0.0.1:10911"
    assert str(found) == "0A00000100002A9F00000000000000CA"


def test_an_offset_id_can_hold_an_ipv6_host():
    """56 digits."""
    text = "FE800DB800000000000000000000FF0100002A9F0000000000028142"
    found = decode_offset_msg_id(text.lower())
    assert found.store_host == "[fe80:db8:0:0:0:0:0:ff01]:10911"
    assert found.phy_offset == 0x28142
    assert str(found) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "order-1",
        "0A00000100002A9F00000000000000C",
        "0A000001FFFFFFFF00000000000000CA",
        "0A00000100012A9F00000000000000CA",
        "0A00000100002A9FF0000000000000CA",
        "0A000001 0002A9F00000000000000CA ",
        "\uff11A00000100002A9F00000000000000CA",
    ],
)
def test_other_text_is_no_offset_id(text):
    """Ports end at 65,535, offsets are not negative."""
    assert decode_offset_msg_id(text) is None


def test_a_remoting_id_tells_its_client():
    """Address, process, class loader, milliseconds of the month, counter."""
    text = "C0A80107" + "1F90" + "18B4AAC2" + f"{86_400_000 + 5:08X}" + "0007"
    assert decode_uniq_key(text) == RemotingMessageId(
        bytes([192, 168, 1, 7]), 0x1F90, 0x18B4AAC2, 86_400_005, 7
    )


@pytest.mark.parametrize(
    ("near", "expected"),
    [
        (millis(2024, 2, 2), millis(2024, 2, 2)),
        (millis(2024, 2, 28), millis(2024, 3, 2)),
        (millis(2024, 1, 1), millis(2024, 1, 2)),
        (millis(2023, 12, 31, 23), millis(2024, 1, 2)),
    ],
)
def test_the_month_is_the_one_nearest_to_the_record(near, expected):
    """The id leaves it out."""
    text = "C0A80107" + "1F90" + "18B4AAC2" + f"{86_400_000:08X}" + "0007"
    assert decode_uniq_key(text, near=near).timestamp == expected


def test_months_start_in_the_clients_zone():
    """Eight hours earlier in Shanghai."""
    zone = timezone(timedelta(hours=8))
    text = "C0A80107" + "1F90" + "18B4AAC2" + "00000000" + "0007"
    found = decode_uniq_key(text, near=millis(2024, 2, 1), zone=zone)
    assert found.timestamp == millis(2024, 2, 1, zone=zone) == millis(2024, 1, 31, 16)
    assert decode_uniq_key(text, near=2**62).timestamp is None


def test_a_grpc_id_tells_its_second():
    """Version, hardware address, process, seconds since 2021, sequence."""
    text = "01" + "56F7E71C361B" + "21BC" + "024CCDBE" + "00000003"
    assert decode_uniq_key(text) == GrpcMessageId(
        1,
        bytes.fromhex("56F7E71C361B"),
        0x21BC,
        millis(2021, 1, 1) + 0x024CCDBE * 1000,
        3,
    )
    assert decode_uniq_key("02" + text[2:]) is None


@pytest.mark.requirement("MID-UKY-4")
def test_kinds_are_told_apart():
    """By length, and by whether the port can be one."""
    assert isinstance(decode_message_id("0A00000100002A9F00000000000000CA"), OffsetMessageId)
    assert isinstance(decode_message_id("C0A801071F9018B4AAC2052660050007"), RemotingMessageId)
    assert isinstance(decode_message_id("01" + "0" * 32), GrpcMessageId)
    assert decode_message_id("order-1") is None
