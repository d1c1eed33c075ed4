"""Receives Grapnel's deliveries: verifies the signatures, processes each event once, and
tells whether events are missing or old."""

from .events import Check, Event, Missing
from .receiver import Handler, Receiver
from .signatures import Headers, VerificationError
from .stores import Busy, MemoryStore, RedisStore, Store
from .sql import PostgresStore, SQLiteStore

__all__ = ["Busy", "Check", "Event", "Handler", "Headers", "MemoryStore", "Missing",
           "PostgresStore", "Receiver", "RedisStore", "SQLiteStore", "Store",
           "VerificationError"]
__version__ = "0.1.0"
