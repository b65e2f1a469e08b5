/** Fixed by the protocol. */
export const CHUNK_BYTES = 256 * 1024;
/** What the server takes in one frame. */
export const MAX_FRAME_BYTES = 17 << 20;
/** What this client takes in one frame, and in one file. */
export const MAX_INCOMING_BYTES = 64 << 20;
/**
 * Past these the client stops reading, so that the process waits, until events are taken. It reads
 * on while somebody waits for something else …
 */
export const UNREAD_EVENTS = 4_096;
export const UNREAD_BYTES = 16 << 20;
/** … up to this; then the connection is given up. In browsers, which cannot stop reading, also. */
export const MAX_UNREAD_BYTES = 256 << 20;
