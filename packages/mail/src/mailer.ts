/** A message to one person. The text may hold links that grant access, so it is never logged. */
interface Letter {
  /** An address in the form that accounts store. */
  to: string
  subject: string
  /** Plain text lines; no HTML. */
  text: string
}

/** Sends mail. compose.ts chooses the driver. */
export interface Mailer {
  /** Resolves once the message is handed on. Rejects if that fails; the message may have been sent all the same. */
  send(letter: Letter): Promise<void>
}
