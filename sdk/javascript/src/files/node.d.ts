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
