/** The client has left, so nobody waits for the answer. */
export class ClientLeft extends Error {
  override name = 'ClientLeft'
}

/** The process is shutting down. */
export class ShuttingDown extends Error {
  override name = 'ShuttingDown'
}

/** The provider was silent for too long, or the whole call took too long. */
export class TookTooLong extends Error {
  override name = 'TookTooLong'
}
