/** Nobody waits for the answer any more. */
export class ClientLeft extends Error {
  override name = 'ClientLeft'
}

/** The process stops. */
export class ShuttingDown extends Error {
  override name = 'ShuttingDown'
}

/** A silence of the provider, or the whole call, was too long. */
export class TookTooLong extends Error {
  override name = 'TookTooLong'
}
