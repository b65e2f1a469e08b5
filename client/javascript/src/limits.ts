/** The size of a chunk, fixed by the protocol. */
export const CHUNK_BYTES = 256 * 1024;
/** The largest frame that the server accepts. */
export const MAX_FRAME_BYTES = 17 << 20;
/** The largest frame, and the largest file, that this client accepts. */
export const MAX_INCOMING_BYTES = 64 << 20;
/**
 * When more events or bytes than this are not taken, the client stops reading, so that the process
 * waits. It continues to read while a call waits for something else. Browsers cannot stop reading.
 */
export const UNREAD_EVENTS = 4_096;
export const UNREAD_BYTES = 16 << 20;
/** When more bytes than this are not taken, the client closes the connection. */
export const MAX_UNREAD_BYTES = 256 << 20;
