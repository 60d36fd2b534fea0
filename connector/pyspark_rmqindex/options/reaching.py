"""The settings of S3 among the options, and methods that run with them.

What travels to tasks is the reader, so its methods put its settings in force wherever they run.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from rmqindex.storage import (
    DEFAULT_ATTEMPTS,
    DEFAULT_CONNECT_TIMEOUT,
    DEFAULT_REQUEST_TIMEOUT,
    S3Settings,
    using,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["reaching_s3", "s3_settings_of"]

P = ParamSpec("P")
R = TypeVar("R")
_MILLISECONDS = 1000


class _HasSettings(Protocol):
    _s3: S3Settings


S = TypeVar("S", bound=_HasSettings)


def reaching_s3(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let a method that is no generator run with the settings in ``self._s3``."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with using(self._s3):
            return method(self, *args, **kwargs)

    return call


def s3_settings_of(values: Mapping[str, Any]) -> S3Settings:
    """Return how parsed options say that S3 is reached."""
    return S3Settings(
        endpoint=values["fs.s3a.endpoint"],
        region=values["fs.s3a.endpoint.region"],
        access_key=values["fs.s3a.access.key"],
        secret_key=values["fs.s3a.secret.key"],
        session_token=values["fs.s3a.session.token"],
        ssl=values["fs.s3a.connection.ssl.enabled"],
        path_style=values["fs.s3a.path.style.access"],
        attempts=values["fs.s3a.attempts.maximum"] or DEFAULT_ATTEMPTS,
        connect_timeout=_seconds(
            values["fs.s3a.connection.establish.timeout"], DEFAULT_CONNECT_TIMEOUT
        ),
        request_timeout=_seconds(values["fs.s3a.connection.timeout"], DEFAULT_REQUEST_TIMEOUT),
    )


def _seconds(milliseconds: int | None, default: float) -> float:
    return default if milliseconds is None else milliseconds / _MILLISECONDS
