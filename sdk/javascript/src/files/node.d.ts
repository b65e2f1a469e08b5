/// <reference path="../../generated/imports.d.ts" />
/**
 * The modules of Node that an inferlet can import. Each name has a star, which stands for no letters: tsc consults a
 * name with a star last, so that a program that has `@types/node` keeps the declarations from there. Two declarations
 * of one name would contradict each other.
 */
declare module 'node:fs/promises*' {
  export * from 'inferlet/fs';
  export { default } from 'inferlet/fs';
}
declare module 'fs/promises*' {
  export * from 'inferlet/fs';
  export { default } from 'inferlet/fs';
}
declare module 'node:*path' {
  export * from 'inferlet/path';
  export { default } from 'inferlet/path';
}
declare module 'pat*h' {
  export * from 'inferlet/path';
  export { default } from 'inferlet/path';
}
declare module 'node:path/posix*' {
  export * from 'inferlet/path';
  export { default } from 'inferlet/path';
}
declare module 'path/posix*' {
  export * from 'inferlet/path';
  export { default } from 'inferlet/path';
}
declare module 'node:timers/promises*' {
  export * from 'inferlet/timers';
  export { default } from 'inferlet/timers';
}
declare module 'timers/promises*' {
  export * from 'inferlet/timers';
  export { default } from 'inferlet/timers';
}
declare module 'node:f*s' {
  export * from 'inferlet/node-fs';
  export { default } from 'inferlet/node-fs';
}
declare module 'f*s' {
  export * from 'inferlet/node-fs';
  export { default } from 'inferlet/node-fs';
}
