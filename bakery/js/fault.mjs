/** Something wrong in the user's project: what, where ("file:line"), and what to do. */
export class Fault extends Error {
  constructor(message, { where, hint } = {}) {
    super(message);
    this.where = where;
    this.hint = hint;
  }
}
