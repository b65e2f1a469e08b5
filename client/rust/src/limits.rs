//! What bounds the memory of a client, and what the protocol fixes.

/// Fixed by the protocol.
pub const CHUNK_BYTES: usize = 256 * 1024;
/// What the server takes in one frame.
pub const MAX_FRAME_BYTES: usize = 17 << 20;
/// What this client takes in one frame, and in one file.
pub const MAX_INCOMING_BYTES: usize = 64 << 20;
/// Past these the client stops reading, so that the process waits, until events are taken. It reads
/// on while somebody waits for something else …
pub const UNREAD_EVENTS: usize = 4_096;
pub const UNREAD_BYTES: usize = 16 << 20;
/// … up to this; then the connection is given up.
pub const MAX_UNREAD_BYTES: usize = 256 << 20;
