/** The root of all errors of this package. */
export class PieError extends Error {
  constructor(text: string) {
    super(text);
    this.name = new.target.name;
  }
}
/** The server answered a request with a refusal; the text is the server's. */
export class ServerError extends PieError {}
/** The server does not believe who this client says it is. */
export class AuthError extends ServerError {}
/** There is no connection, or it broke. `PieClient.reconnect` takes up where it ended. */
export class ConnectionLost extends PieError {}
/** Nothing came within the time that was given. The connection is still good. */
export class RequestTimeout extends PieError {}
/** The process ended with an error event; the text is its own. */
export class ProcessError extends PieError {}
/** The last word of the process was taken already: there is nothing more to wait for. */
export class ProcessEnded extends PieError {}
/** A file arrived that is not what its hash says. */
export class IntegrityError extends PieError {}
/** A message of this size would be refused; nothing was sent. */
export class TooLarge extends PieError {}
/** This is no private key that can be used. */
export class KeyError extends PieError {}
