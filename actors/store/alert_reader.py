"""Queries on alerts beside those of ``Reader``: silences, acknowledgements, deliveries by channel, feedback."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import NamedTuple

from actors.store.reader import Reader
from actors.store.records import AlertLogRecord, DeliveryRecord

__all__ = ["AcknowledgementRecord", "AlertReader", "FeedbackRecord", "SilenceRecord"]


class SilenceRecord(NamedTuple):
    id: int
    key: str | None
    source: str | None
    severity: str
    until: float
    by_whom: str
    note: str
    at: float


class AcknowledgementRecord(NamedTuple):
    key: str
    severity: str
    opened_at: float
    by_whom: str
    at: float


class FeedbackRecord(NamedTuple):
    id: int
    alert_log_id: int
    key: str
    says: str
    evidence: str
    note: str
    by_whom: str
    via: str
    at: float


class DeliveryRefRecord(NamedTuple):
    channel: str
    key: str
    ref: str
    at: float


class AlertReader(Reader):
    """All raise Unreadable; see Reader."""

    @classmethod
    def beside(cls, reader: Reader) -> AlertReader:
        """Return ``reader`` itself where it can, else one on the same file."""
        return reader if isinstance(reader, cls) else cls(reader._path)

    def silences(self, now: float) -> list[SilenceRecord]:
        """Return those that are not over."""
        return self._many(SilenceRecord, "silences", "WHERE until > ? ORDER BY id", (now,))

    def acknowledgement(self, key: str) -> AcknowledgementRecord | None:
        return self._one(AcknowledgementRecord, "acknowledgements", "WHERE key = ?", (key,))

    def feedback(self, limit: int = 1000) -> list[FeedbackRecord]:
        """Return the newest first."""
        return self._many(FeedbackRecord, "feedback", "ORDER BY id DESC LIMIT ?", (limit,))

    def alert_log_entry(self, number: int) -> AlertLogRecord | None:
        return self._one(AlertLogRecord, "alert_log", "WHERE id = ?", (number,))

    def deliveries_of_channel(self, channel: str, limit: int = 50) -> list[DeliveryRecord]:
        """Return the newest first, those that were only held back left out."""
        tail = "WHERE channel = ? AND state <> 'suppressed' ORDER BY id DESC LIMIT ?"
        return self._many(DeliveryRecord, "deliveries", tail, (channel, limit))

    def deliveries_of_key(self, key: str, limit: int = 2000) -> list[DeliveryRecord]:
        """Return the newest first."""
        return self._many(DeliveryRecord, "deliveries", "WHERE key = ? ORDER BY id DESC LIMIT ?", (key, limit))

    def pending_of_channel(self, channel: str, limit: int) -> list[DeliveryRecord]:
        """Return what is owed to a channel, oldest first."""
        tail = "WHERE state = 'pending' AND channel = ? ORDER BY id LIMIT ?"
        return self._many(DeliveryRecord, "deliveries", tail, (channel, limit))

    def digest_parts(self, channel: str, at: float, reason: str) -> list[DeliveryRecord]:
        """Return the rows that a digest of ``channel`` stands for: those written with it."""
        tail = "WHERE channel = ? AND at = ? AND state = 'suppressed' AND error = ? ORDER BY id"
        return self._many(DeliveryRecord, "deliveries", tail, (channel, at, reason))

    def keys_last_held(self, reasons: Collection[str]) -> list[str]:
        """Return the keys of which some channel was last told nothing, for one of ``reasons`` (a scan: at start)."""
        sql = (
            "SELECT DISTINCT key FROM (SELECT key, state, error, max(id) FROM deliveries GROUP BY key, channel)"
            " WHERE state = 'suppressed' AND error IN (SELECT value FROM json_each(?))"
        )
        return [str(key) for (key,) in self._query(sql, (json.dumps(list(reasons)),))]

    def delivery_ref(self, channel: str, key: str) -> str | None:
        """Return what the service calls the message that shows ``key``."""
        found = self._one(DeliveryRefRecord, "delivery_refs", "WHERE channel = ? AND key = ?", (channel, key))
        return None if found is None else found.ref

    def key_of_ref(self, channel: str, ref: str) -> str | None:
        """Return the key whose message the service calls ``ref``."""
        tail = "WHERE channel = ? AND ref = ? ORDER BY at DESC LIMIT 1"
        found = self._one(DeliveryRefRecord, "delivery_refs", tail, (channel, ref))
        return None if found is None else found.key
