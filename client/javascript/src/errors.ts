/** The base class of all errors of this package. */
export class PieError extends Error {
  /** Made by the client; programs catch it. */
  constructor(text: string) {
    super(text);
    this.name = new.target.name;
  }
}
/** The server refused a request. The text is the server's. */
export class ServerError extends PieError {}
/** The server did not accept the username or its proof. */
export class AuthError extends ServerError {}
/** There is no connection, or it broke. `PieClient.reconnect` continues where it stopped. */
export class ConnectionLost extends PieError {}
/** Nothing arrived within the time-out. The connection still works. */
export class RequestTimeout extends PieError {}
/** The process ended with an error event. The text is the process's. */
export class ProcessError extends PieError {}
/** The last event of the process was taken already; no further event will arrive. */
export class ProcessEnded extends PieError {}
/** A received file does not match its hash. */
export class IntegrityError extends PieError {}
/** The message is too large for the server. Nothing was sent. */
export class TooLarge extends PieError {}
/** The private key cannot be used. */
export class KeyError extends PieError {}
