"""The bus: length-prefixed JSON frames over Unix sockets, one listening socket per process, connections on demand.

Order: what one process asks or tells one peer arrives in the order of the calls; handlers start in that order and run
concurrently. Delivery: an ask is answered at most once; when a connection breaks every open ask on it fails with
PeerUnavailable, and nothing tells whether the peer did the work: callers make their messages safe to repeat.
Back-pressure: a full queue makes the sender wait, then fail with QueueFull; nothing is dropped in silence.
Bodies are opaque bytes here, so that validated messages are forwarded and not parsed again.
"""
