/** An error in the user's project. `where` is "file:line", `hint` says what to do. */
export class Fault extends Error {
  constructor(message, { where, hint } = {}) {
    super(message);
    this.where = where;
    this.hint = hint;
  }
}
