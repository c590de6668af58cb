"""Every setting of the service: read once, from the environment and the command line."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

ENV_PREFIX = "MISCLICK_"
#: Settings that never stand on a command line, where every user of the machine could read them.
SECRETS = frozenset({"redis_url", "secret"})


class Settings(BaseSettings):
    """The settings; each is `MISCLICK_<NAME>` in the environment and `--<name>` of `serve`."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True)

    host: str = Field(
        "127.0.0.1", description="Address to listen on; without API keys loopback only."
    )
    port: int = Field(8000, ge=0, le=65535, description="Port to listen on.")
    workers: int = Field(1, ge=1, le=64, description="Processes that answer requests.")
    data_dir: Path = Field(
        Path("data"), description="Folder of the embedded Valkey: its log, socket and lock."
    )
    redis_url: SecretStr | None = Field(
        None,
        description="Redis 7 or Valkey to use instead of the embedded one (redis://, rediss://, unix://).",
    )
    redis_timeout_s: float = Field(
        1.5, gt=0, le=30, description="Longest wait for one answer of Redis; then 503."
    )
    durability: Literal["strict", "relaxed"] = Field(
        "strict",
        description="strict: nothing is taken (503) unless Redis has appendonly yes, appendfsync "
        "always, no-appendfsync-on-rewrite no and noeviction. relaxed: noeviction is enough; "
        "acknowledged feedback may be lost when Redis is killed.",
    )
    secret: SecretStr | None = Field(
        None,
        min_length=32,
        description="What decision ids are signed with; without it one is made and kept in Redis.",
    )
    keys_file: Path | None = Field(
        None,
        description="File of API keys, one JSON object a line, as `misclick key` prints it, or an "
        "array of them; without it no keys are asked for.",
    )
    max_body_bytes: int = Field(
        262_144,
        ge=1024,
        le=2**24,
        description="Largest body of a single call, and largest item of a batch; of a new model, "
        "or of labels, at least 1048576.",
    )
    max_batch_body_bytes: int = Field(
        25_165_824, ge=1024, le=2**28, description="Largest body of a batch."
    )
    max_batch_items: int = Field(1000, ge=1, le=1000, description="Most items of a batch.")
    max_import_bytes: int = Field(
        1_073_741_824, ge=1024, description="Largest body of an import; it is read as a stream."
    )
    max_models: int = Field(100, ge=1, le=10_000, description="Most models of one tenant.")
    max_loaded_models: int = Field(
        128, ge=1, le=10_000, description="Most models that one worker holds in memory."
    )
    max_requests: int = Field(
        256, ge=1, le=65_536, description="Most requests that one worker answers at once; then 429."
    )
    body_timeout_s: float = Field(
        30.0, gt=0, le=3600, description="Longest wait for the rest of a request's body."
    )
    sync_interval_s: float = Field(
        0.05, gt=0, le=10, description="How often a worker looks for what other workers logged."
    )
    stale_s: float = Field(
        1.0,
        gt=0,
        le=60,
        description="A copy not refreshed for this long catches up before it answers.",
    )
    sweep_interval_s: float = Field(
        0.5, gt=0, le=60, description="How often decisions whose window has closed are ended."
    )
    snapshot_events: int = Field(
        5000, ge=1, le=1_000_000, description="Events after which a model is snapshotted."
    )
    snapshot_s: float = Field(
        30.0, gt=0, le=3600, description="Seconds after which a changed model is snapshotted."
    )
    estimate_timeout_s: float = Field(
        600.0, ge=1, le=86_400, description="Longest training of one estimate of noise rates."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="What is logged, as one JSON object a line on standard error."
    )

    @field_validator("redis_url")
    @classmethod
    def _known_scheme(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not url.get_secret_value().startswith(
            ("redis://", "rediss://", "unix://")
        ):
            raise ValueError("a URL that starts with redis://, rediss:// or unix://")
        return url

    @property
    def loopback(self) -> bool:
        """Whether `host` can only be reached from this machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def embedded(self) -> bool:
        """Whether the service runs its own Valkey."""
        return self.redis_url is None

    @property
    def socket_path(self) -> Path:
        """Where the embedded Valkey listens."""
        return self.data_dir.resolve() / "valkey.sock"

    def store_url(self) -> str:
        """Return the URL of the Redis to use; secret."""
        if self.redis_url is None:
            return f"unix://{quote(str(self.socket_path))}"
        return self.redis_url.get_secret_value()
