/**
 * Contexts that a program has forgotten to dispose.
 *
 * The JavaScript engine runs no finalizers, but its garbage collector clears weak references. So when many contexts
 * are open, a new one looks for those that nothing refers to any more, and gives their pages back. As the limit
 * doubles with what is really open, a context costs the same however many there are. A context whose weak reference
 * was read is kept until the program waits for something: a program that never waits releases nothing here.
 */

/** The number of open contexts at which the first search begins. */
const FEW = 256;

/** A program cannot start the garbage collector. It starts when about this much memory was allocated. */
const BLOCKS = 16;
const BLOCK_BYTES = 8 << 20;

const open = new Map<Disposable, WeakRef<object>>();
let searchAt = FEW;

/** Disposes `handle` some time after nothing refers to `owner` any more. `owner` must not be reachable from `handle`. */
export function remember(owner: object, handle: Disposable): void {
  if (open.size >= searchAt) {
    search();
    searchAt = Math.max(FEW, 2 * open.size);
  }
  open.set(handle, new WeakRef(owner));
}

/** The owner disposes `handle` itself. */
export function forget(handle: Disposable): void {
  open.delete(handle);
}

function search(): void {
  for (let i = 0; i < BLOCKS; i++) new Uint8Array(BLOCK_BYTES);
  for (const [handle, owner] of open) {
    if (owner.deref() !== undefined) continue;
    open.delete(handle);
    handle[Symbol.dispose]();
  }
}
