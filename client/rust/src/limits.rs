//! Limits on the memory of a client, and constants of the protocol.

/// The size of a chunk, fixed by the protocol.
pub const CHUNK_BYTES: usize = 256 * 1024;
/// The largest frame that the server accepts.
pub const MAX_FRAME_BYTES: usize = 17 << 20;
/// The largest frame, and the largest file, that this client accepts.
pub const MAX_INCOMING_BYTES: usize = 64 << 20;
/// When more events or bytes than this are not taken, the client stops reading, so that the process
/// waits. It continues to read while a call waits for something else.
pub const UNREAD_EVENTS: usize = 4_096;
pub const UNREAD_BYTES: usize = 16 << 20;
/// When more bytes than this are not taken, the client closes the connection.
pub const MAX_UNREAD_BYTES: usize = 256 << 20;
