"""What clients send: messages of every kind, as the arguments of the step ``put``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .draw import Draw

#: Texts whose hashes are equal two and two, and the one that Java cannot make positive.
COLLIDING = ("Aa", "BB", "AaAa", "AaBB", "BBAa", "BBBB", "polygenelubricants")
ODD = ("a,b", "T#TagA", "ключ", "订单", "😀", "a\tb", "a\rb", "x#y", "%", "'", '"', "0", "-1")
#: What breaks a line, though no control character.
LINES = ("a\u2028b",)
#: What no number of Java is, or none that fits.
NO_NUMBERS = ("abc", "--1", "+-5", "yy", "9" * 25, "99999999999")
TEXTS = ('{"order": 17}', "订单\u3000完成", "a\u2028b", "\ufeffx", "👩‍💻", "line\nline", 'a\rb,"c"')
TAGS = ("TagA", "TagB", "t||x", "Aa", "BB", "タグ")
HALF, OP = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
#: How often a kind of message is sent, before a store's own habits.
_KINDS = (
    (12, "plain"),
    (2, "batch"),
    (1, "inner_batch"),
    (1, "light"),
    (1, "delayed"),
    (1, "transaction"),
    (0.5, "old_transaction"),
    (1, "retry"),
    (1, "odd"),
)
Sent = dict[str, Any]


class Senders:
    """Clients of some topics."""

    def __init__(self, draw: Draw) -> None:
        """Choose the topics."""
        self._draw = draw
        names = [
            "Orders",
            "orders",
            "AaTopic",
            "BBTopic",
            "T" + "x" * draw.number(127, 180),
            "主题",
        ]
        self.topics = ["Orders", *draw.some(names[1:], 3)]
        self._number = 0
        #: Some kinds are frequent in one store and rare in another.
        self._kinds = [(weight * draw.weighted([(7, 1), (1, 10)]), kind) for weight, kind in _KINDS]
        #: How often a number is none that a broker reads; it gives up there.
        self._kinds.append((draw.weighted([(4, 0.0), (1, 1.5)]), "no_number"))

    def draw(self) -> list[Sent]:
        """Return the messages of one or more steps."""
        kind = self._draw.weighted(self._kinds)
        return getattr(self, f"_{kind}")()

    def again(self, puts: list[Sent]) -> list[Sent]:
        """Return other messages of the same sizes."""
        found = []
        for put in puts:
            properties = [
                [name, self._unique() if name == "UNIQ_KEY" else value]
                for name, value in put.get("properties", [])
            ]
            body = bytes.fromhex(put.get("body", ""))[::-1].hex()
            found.append({**put, "properties": properties, "body": body})
        return found

    def _unique(self) -> str:
        self._number += 1
        return f"0A000005{self._number % 7:04X}18B4AAC2{self._number:012X}"

    def _keys(self) -> list[str]:
        pool = [f"k{self._draw.skewed(0, 12)}", *COLLIDING, *ODD, *LINES]
        count = self._draw.weighted([(3, 0), (4, 1), (3, 2), (1, 4)])
        return [self._draw.one(pool) if self._draw.chance(0.5) else pool[0] for _ in range(count)]

    def _properties(self, *, unique: float = 0.85) -> list[list[str]]:
        pairs = []
        keys = self._keys()
        if keys:
            separator = self._draw.weighted([(8, " "), (1, "  ")])
            pairs.append(["KEYS", separator.join(keys)])
        if self._draw.chance(unique):
            pairs.append(["UNIQ_KEY", self._unique()])
        if self._draw.chance(0.5):
            pairs.append(["TAGS", self._draw.one(TAGS)])
        if self._draw.chance(0.2):
            pairs.append([f"user_{self._draw.number(0, 3)}", "v"])
        return self._draw.shuffled(pairs)

    def _body(self) -> str:
        size = self._draw.weighted([(1, 0), (6, 20), (3, 100), (1, 600)])
        if self._draw.chance(0.6):
            return (b'{"order": 17}' * (size // 13 + 1))[:size].hex()
        if self._draw.chance(0.5):
            return self._draw.one(TEXTS).encode().hex()
        return self._draw.data(self._draw.number(0, size)).hex()

    def _plain(self, **more: Any) -> list[Sent]:
        draw = self._draw
        sent = {
            "topic": draw.one(self.topics),
            "queue": draw.skewed(0, 3),
            "properties": self._properties(),
            "body": self._body(),
            "cut": draw.number(1, 99),
        }
        for name, chance in (
            ("born_v6", 0.1),
            ("store_v6", 0.05),
            ("property_crc", 0.1),
            ("tail_first", 0.1),
        ):
            if draw.chance(chance):
                sent[name] = True
        if draw.chance(0.2):
            sent["codec"] = draw.one(["old", "lz4", "zstd", "zlib"])
        return [{**sent, **more}]

    def _batch(self) -> list[Sent]:
        count = self._draw.number(2, 4)
        parts = [{"properties": self._properties(), "body": self._body()} for _ in range(count)]
        batch = self._properties() if self._draw.chance(0.5) else []
        return [{**self._plain(kind="batch")[0], "parts": parts, "batch": batch}]

    def _inner_batch(self) -> list[Sent]:
        count = self._draw.number(1, 4)
        parts = [
            {"properties": self._properties(), "body": self._body()[:80]} for _ in range(count)
        ]
        if self._draw.chance(0.3):
            return self._plain(kind="of_batch_topic", topic="BatchTopic")
        return self._plain(kind="inner_batch", topic="BatchTopic", parts=parts, inner=True)

    def _light(self) -> list[Sent]:
        names = self._draw.some(["%LMQ%device1", "%LMQ%device2", "%LMQ%设备3"], 3)
        return self._plain(kind="light", light=names)

    def _delayed(self) -> list[Sent]:
        sent = self._plain()[0]
        level = self._draw.number(1, 19)
        real = [["REAL_TOPIC", sent["topic"]], ["REAL_QID", str(sent["queue"])]]
        delay = {
            **sent,
            "kind": "delayed",
            "topic": SCHEDULE,
            "queue": min(level, 18) - 1,
            "properties": [*sent["properties"], ["DELAY", str(level)], *real],
        }
        return [delay, {**sent, "kind": "delivered"}] if self._draw.chance(0.5) else [delay]

    def _transaction(self) -> list[Sent]:
        sent = self._plain()[0]
        own = [
            ["TRAN_MSG", "true"],
            ["PGROUP", "producers"],
            ["REAL_TOPIC", sent["topic"]],
            ["REAL_QID", str(sent["queue"])],
        ]
        half = {
            **sent,
            "kind": "half",
            "topic": HALF,
            "queue": 0,
            "properties": [*sent["properties"], *own],
        }
        steps = [half]
        if self._draw.chance(0.6):
            steps.append({**sent, "kind": "commit", "flags": 8})
        if self._draw.chance(0.8):
            op = {"topic": OP, "queue": 0, "kind": "op", "properties": [["TAGS", "d"]]}
            steps.append({**op, "body": b"0".hex()})
        return steps

    def _old_transaction(self) -> list[Sent]:
        kind, flags = self._draw.one([("prepared", 4), ("rollback", 12)])
        return self._plain(kind=kind, flags=flags)

    def _retry(self) -> list[Sent]:
        sent = self._plain()[0]
        origin = [["RETRY_TOPIC", sent["topic"]], ["ORIGIN_MESSAGE_ID", "00" * 16]]
        name = self._draw.one(["%RETRY%group", "%DLQ%group"])
        return [
            {
                **sent,
                "kind": "retry",
                "topic": name,
                "queue": 0,
                "reconsumed": self._draw.number(1, 16),
                "properties": [*sent["properties"], *origin],
            }
        ]

    def _no_number(self) -> list[Sent]:
        """Return one with a number in PROPERTIES that is none."""
        number = self._draw.one(NO_NUMBERS)
        own = self._properties()
        choice = self._draw.number(0, 2)
        if choice == 0:
            return self._plain(topic=SCHEDULE, queue=0, properties=[*own, ["DELAY", number]])
        if choice == 1:
            batch = [["INNER_NUM", self._draw.one(["2", number])], ["INNER_BASE", number]]
            return self._plain(properties=[*own, *batch])
        light = [["INNER_MULTI_DISPATCH", "%LMQ%device1"], ["INNER_MULTI_QUEUE_OFFSET", number]]
        return self._plain(properties=[*own, *light])

    def _odd(self) -> list[Sent]:
        """Return one without keys, or with properties that other clients write."""
        choice = self._draw.number(0, 3)
        if choice == 0:
            return self._plain(properties=[])
        if choice == 1:
            return self._plain(properties=[["KEYS", "first"], ["x", ""], ["KEYS", "second third"]])
        if choice == 2:
            codec = self._draw.one(["broken_zlib", "broken_lz4", "broken_zstd"])
            return self._plain(codec=codec, body=self._draw.data(30).hex())
        return self._plain(properties=[["KEYS", ""], ["UNIQ_KEY", self._unique()]])
