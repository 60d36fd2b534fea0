"""The options of S3."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_rmqindex.options.kinds import BOOLEAN, DURATION, SOME_TEXT, integer, option
from rmqindex.storage import (
    DEFAULT_ATTEMPTS,
    DEFAULT_CONNECT_TIMEOUT,
    DEFAULT_REQUEST_TIMEOUT,
    S3Settings,
    Storage,
)

__all__ = ["S3Options"]

_MILLISECONDS = 1000


@dataclass(frozen=True, kw_only=True)
class S3Options:
    """How to reach S3, under Hadoop's names."""

    __slots__ = ()

    s3_endpoint: str | None = option(
        "fs.s3a.endpoint",
        SOME_TEXT.rename("host and port, or URL"),
        "S3 of another maker than AWS: where it is, such as `http://minio:9000`. This and the "
        "following are Hadoop's names, so that one set of options serves Spark's own sources, too.",
        default_doc="the environment's `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, else AWS",
    )
    s3_region: str | None = option(
        "fs.s3a.endpoint.region",
        SOME_TEXT,
        "The region of the bucket.",
        default_doc="the environment's `AWS_REGION` or `AWS_DEFAULT_REGION`, else found out",
    )
    s3_access_key: str | None = option(
        "fs.s3a.access.key",
        SOME_TEXT,
        "The id of the key for S3. No error, plan or log shows this and the next two.",
        default_doc="what AWS's own tools find: the environment's `AWS_ACCESS_KEY_ID`, "
        "`~/.aws`, the instance's role",
        secret=True,
    )
    s3_secret_key: str | None = option(
        "fs.s3a.secret.key",
        SOME_TEXT,
        "The key for S3, together with its id.",
        default_doc="as `fs.s3a.access.key`",
        secret=True,
    )
    s3_session_token: str | None = option(
        "fs.s3a.session.token",
        SOME_TEXT,
        "The token that belongs to a temporary key.",
        default_doc="none where the key is given, else as `fs.s3a.access.key`",
        secret=True,
    )
    s3_ssl: bool | None = option(
        "fs.s3a.connection.ssl.enabled",
        BOOLEAN,
        "Whether connections to S3 are encrypted, where the endpoint is no URL.",
        default_doc="`true`",
    )
    s3_path_style: bool | None = option(
        "fs.s3a.path.style.access",
        BOOLEAN,
        "Whether a bucket is named in the path, not in the host name.",
        default_doc="`true` with an endpoint, else `false`",
    )
    s3_attempts: int = option(
        "fs.s3a.attempts.maximum",
        integer(1, 100),
        "How often a request to S3 is sent at most, before its failure is an error.",
        default=str(DEFAULT_ATTEMPTS),
    )
    s3_connect_timeout: int = option(
        "fs.s3a.connection.establish.timeout",
        DURATION,
        "How long a connection to S3 may take, such as `5s`; then the request is sent again.",
        default=f"{DEFAULT_CONNECT_TIMEOUT:g}s",
    )
    s3_request_timeout: int = option(
        "fs.s3a.connection.timeout",
        DURATION,
        "How long a request to S3 may stand still, such as `30s`; then it is sent again. Whole "
        "seconds count, at least one.",
        default=f"{DEFAULT_REQUEST_TIMEOUT:g}s",
    )

    @property
    def storage(self) -> Storage:
        """How to reach the paths."""
        s3 = S3Settings(
            endpoint=self.s3_endpoint,
            region=self.s3_region,
            access_key=self.s3_access_key,
            secret_key=self.s3_secret_key,
            session_token=self.s3_session_token,
            ssl=self.s3_ssl,
            path_style=self.s3_path_style,
            attempts=self.s3_attempts,
            connect_timeout=self.s3_connect_timeout / _MILLISECONDS,
            request_timeout=self.s3_request_timeout / _MILLISECONDS,
        )
        return Storage(s3)
