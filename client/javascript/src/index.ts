export { PieClient } from './client.js';
export type { ClientOptions, Key, ProcessInfo, Wasm } from './client.js';
export * from './errors.js';
export { Event } from './events.js';
export type { ProcessEvent } from './events.js';
export { McpError } from './mcp.js';
export { ParsedPrivateKey } from './keys.js';
export { Process } from './process.js';
