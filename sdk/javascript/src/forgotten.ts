/**
 * Contexts that a program has forgotten to dispose.
 *
 * The JavaScript engine runs no finalizers, but its garbage collector clears weak references. So when many contexts
 * are open, a new one looks for those that nothing refers to any more, and gives their pages back. As the limit
 * doubles with what is really open, a context costs the same however many there are.
 */

/** So many contexts may be open before the first search. */
const FEW = 64;

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
  for (const [handle, owner] of open) {
    if (owner.deref() !== undefined) continue;
    open.delete(handle);
    handle[Symbol.dispose]();
  }
}
