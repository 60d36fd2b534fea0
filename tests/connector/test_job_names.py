"""Where Spark shows its jobs, those of this package say what they do."""

from __future__ import annotations

import pytest

from pyspark_rmqindex.job_names import named_jobs

DESCRIPTION, GROUP = "spark.job.description", "spark.jobGroup.id"


class Classic:
    """The local properties of a thread of a classic session."""

    def __init__(self, **properties):
        """Start with some of them set."""
        self.properties = properties
        self.sparkContext = self
        self._jsparkSession = object()

    def getLocalProperty(self, name):  # noqa: N802
        """Return one, or None."""
        return self.properties.get(name)

    def setLocalProperty(self, name, value):  # noqa: N802
        """Set one; None removes it."""
        if value is None:
            self.properties.pop(name, None)
        else:
            self.properties[name] = value


class Connect:
    """The tags of a session of Spark Connect."""

    def __init__(self, *tags):
        """Start with some tags."""
        self.tags = set(tags)

    def getTags(self):  # noqa: N802
        """Return all."""
        return set(self.tags)

    def addTag(self, tag):  # noqa: N802
        """Add one; Spark refuses commas and empty ones."""
        assert tag
        assert "," not in tag
        self.tags.add(tag)

    def removeTag(self, tag):  # noqa: N802
        """Remove one."""
        self.tags.discard(tag)


def test_a_job_is_described_and_then_no_longer():
    """Spark shows the description with its jobs, stages and queries."""
    spark = Classic()
    with named_jobs(spark, "build 3 files"):
        assert spark.properties == {DESCRIPTION: "build 3 files"}
    assert spark.properties == {}


def test_what_the_user_set_stays_and_comes_back():
    """Even if the jobs fail; the group, by which they are cancelled, is left alone."""
    spark = Classic(**{DESCRIPTION: "nightly", GROUP: "mine"})

    def fail():
        with named_jobs(spark, "build 3 files"):
            assert spark.properties == {DESCRIPTION: "nightly: build 3 files", GROUP: "mine"}
            raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        fail()
    assert spark.properties == {DESCRIPTION: "nightly", GROUP: "mine"}


def test_spark_connect_has_tags_instead():
    """The user's stay, one of the same name too."""
    spark = Connect("mine")
    with named_jobs(spark, "rmqindex lookup in /a, b: list"):
        assert spark.tags == {"mine", "rmqindex-lookup-in-/a-b-list"}
    assert spark.tags == {"mine"}
    with named_jobs(spark, "mine"):
        pass
    assert spark.tags == {"mine"}


def test_the_jobs_of_a_write_are_named(spark, tmp_path):
    """As Spark's own pages read them; a write that fails leaves the description as it was."""
    from pyspark_rmqindex import write_index

    rows = spark.sql("""
        SELECT 'T' AS topic, concat('k', id) AS key, id * 100 AS phy_offset,
               1700000000000 + id AS store_timestamp FROM range(300)
    """)
    context = spark.sparkContext
    context.setLocalProperty(DESCRIPTION, "nightly")
    try:
        write_index(rows, tmp_path / "index", maxHashSlotNum=97, maxIndexNum=100)
        assert context.getLocalProperty(DESCRIPTION) == "nightly"
    finally:
        context.setLocalProperty(DESCRIPTION, None)
    store = spark._jsc.sc().statusStore()
    jobs = store.jobsList(None)
    texts = [str(jobs.apply(place).description()) for place in range(jobs.size())]
    name = f"nightly: rmqindex write_index to {tmp_path}/index"
    named = [text for text in texts if name in text]
    assert f"Some({name}: stage sorted rows)" in named
    assert any(text.startswith(f"Some({name}: build ") for text in named)
