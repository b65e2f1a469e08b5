/// <reference path="../../generated/imports.d.ts" />
/** The modules of Node that an inferlet can import. */
declare module 'node:fs/promises' {
  export * from 'inferlet/fs';
  export { default } from 'inferlet/fs';
}
declare module 'fs/promises' {
  export * from 'inferlet/fs';
  export { default } from 'inferlet/fs';
}
declare module 'node:path' {
  export * from 'inferlet/path';
  export { default } from 'inferlet/path';
}
declare module 'path' {
  export * from 'inferlet/path';
  export { default } from 'inferlet/path';
}
declare module 'node:path/posix' {
  export * from 'inferlet/path';
  export { default } from 'inferlet/path';
}
declare module 'path/posix' {
  export * from 'inferlet/path';
  export { default } from 'inferlet/path';
}
declare module 'node:timers/promises' {
  export * from 'inferlet/timers';
  export { default } from 'inferlet/timers';
}
declare module 'timers/promises' {
  export * from 'inferlet/timers';
  export { default } from 'inferlet/timers';
}
declare module 'node:fs' {
  export * from 'inferlet/node-fs';
  export { default } from 'inferlet/node-fs';
}
declare module 'fs' {
  export * from 'inferlet/node-fs';
  export { default } from 'inferlet/node-fs';
}
