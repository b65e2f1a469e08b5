"""What bounds the memory of a client, and what the protocol fixes."""

from __future__ import annotations

CHUNK_BYTES = 256 * 1024
"""Fixed by the protocol."""

MAX_FRAME_BYTES = 17 << 20
"""What the server takes in one frame."""

MAX_INCOMING_BYTES = 64 << 20
"""What this client takes in one frame, and in one file."""

UNREAD_EVENTS = 4_096
UNREAD_BYTES = 16 << 20
"""Past these the client stops reading, so that the process waits, until events are taken.
It reads on while somebody waits for something else …"""

MAX_UNREAD_BYTES = 256 << 20
"""… up to this; then the connection is given up."""
