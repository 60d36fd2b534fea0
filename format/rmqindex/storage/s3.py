"""The connection to S3: its keys, endpoint and timeouts (Arrow: ``S3FileSystem``).

What a URI leaves out comes from the settings, else from the environment variables that AWS's own
tools read.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

#: The schemes of S3: Arrow's own, and Hadoop's, which Spark users write.
S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
#: How many times a request is sent at most before its failure is an error.
DEFAULT_ATTEMPTS = 5
#: Seconds within which a connection must be established.
DEFAULT_CONNECT_TIMEOUT = 5.0
#: Seconds without a byte after which a request has failed.
DEFAULT_REQUEST_TIMEOUT = 30.0

_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
# Every request must name a region, even to a store that has none.
_ANY_REGION = "us-east-1"
_AUTHORITY = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)")
_HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to connect to S3; a None is filled in from the URI or the environment.

    Its text never shows the keys.

    Attributes:
        endpoint: The host and port, or the URL, of a store other than AWS's.
        region: The bucket's region.
        access_key: The key's id.
        secret_key: The key.
        session_token: The session token of temporary keys.
        ssl: Whether connections are encrypted, unless ``endpoint`` has a scheme.
        path_style: Whether requests name the bucket in the path, not in the host name.
        attempts: How many times a request is sent at most.
        connect_timeout: Seconds within which a connection must be established.
        request_timeout: Seconds without a byte after which a request has failed.
    """

    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    ssl: bool | None = None
    path_style: bool | None = None
    attempts: int = DEFAULT_ATTEMPTS
    connect_timeout: float = DEFAULT_CONNECT_TIMEOUT
    request_timeout: float = DEFAULT_REQUEST_TIMEOUT

    def hidden_in(self, text: str) -> str:
        """Return a text, such as a server's error message, with the keys masked."""
        for secret in (self.secret_key, self.session_token, self.access_key):
            if secret:
                text = text.replace(secret, _HIDDEN)
        return text


def check_no_secret(uri: str) -> None:
    """Refuse an S3 URI that holds keys: they would appear wherever the URI does.

    Raises:
        ValueError: It holds keys; the message does not show them.
    """
    if without_keys(uri) != uri:
        raise ValueError(
            f"{without_keys(uri)}: expected a bucket behind '://', got keys before it, which would "
            "show in errors, plans and the column file_path; give them as options, such as "
            "fs.s3a.access.key and fs.s3a.secret.key, or in the environment"
        )


def without_keys(uri: str) -> str:
    """Return a URI as errors may show it: one of S3 without the keys before the bucket."""
    match = _AUTHORITY.match(uri)
    # A bucket's name has neither character; unescaped keys may have slashes.
    if match is None or match[1].lower() not in S3_SCHEMES or not {":", "@"} & set(match[2]):
        return uri
    head, mark, _ = uri.partition("?")
    _, _, rest = head[match.start(2) :].rpartition("@")
    return f"{match[1]}://{_HIDDEN}@{rest if '@' in head else ''}{mark and '?..'}"


def connect(bucket: str, query: str, settings: S3Settings) -> pafs.FileSystem:
    """Return the file system of a bucket; the only request is for its region, where unknown."""
    known = _query(query)
    scheme, endpoint = _endpoint(known.get("endpoint_override"), settings)
    scheme = known.get("scheme", scheme)
    region = known.get("region") or settings.region or _variable(_REGION_VARIABLES)
    if region is None:
        region = _ANY_REGION if endpoint else pafs.resolve_s3_region(bucket)
    virtual = known.get("force_virtual_addressing", "").lower() == "true"
    if settings.path_style is not None:
        virtual = not settings.path_style
    return pafs.S3FileSystem(
        access_key=settings.access_key,
        secret_key=settings.secret_key,
        session_token=settings.session_token,
        region=region,
        scheme=scheme,
        endpoint_override=endpoint,
        force_virtual_addressing=virtual,
        connect_timeout=settings.connect_timeout,
        request_timeout=settings.request_timeout,
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=settings.attempts),
        # Parts that wait to be sent would fill up memory.
        background_writes=False,
        **_newer_arguments(known),
    )


def _newer_arguments(known: dict[str, str]) -> dict[str, Any]:
    """Return the arguments that S3FileSystem takes since PyArrow 21."""
    if int(pa.__version__.partition(".")[0]) >= 21:
        # A small object then takes one request, not the three of a multipart upload.
        return {
            "allow_delayed_open": True,
            "tls_ca_file_path": known.get("tls_ca_file_path"),
        }
    if "tls_ca_file_path" in known:
        raise ValueError(
            f"the URI's query: tls_ca_file_path: expected PyArrow 21 or later, got {pa.__version__}"
        )
    return {}


_QUERY = {
    "endpoint_override",
    "force_virtual_addressing",
    "region",
    "scheme",
    "tls_ca_file_path",
}


def _query(query: str) -> dict[str, str]:
    known = dict(parse_qsl(query, keep_blank_values=True))
    for name in known:
        if name not in _QUERY:
            raise ValueError(
                f"the URI's query: expected some of {', '.join(sorted(_QUERY))}, got {name!r}"
            )
    return known


def _endpoint(asked: str | None, settings: S3Settings) -> tuple[str, str | None]:
    """Return the scheme and the host of the endpoint; None for AWS's own."""
    text = asked or settings.endpoint or _variable(_ENDPOINT_VARIABLES)
    scheme = "http" if settings.ssl is False else "https"
    if text is None or "://" not in text:
        return scheme, text
    parts = urlsplit(text)
    return parts.scheme, parts.netloc + parts.path.rstrip("/")


def _variable(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
