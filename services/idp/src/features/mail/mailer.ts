/** A message to one person. The text may hold links that are keys: it is never logged. */
interface Letter {
  /** An address as accounts hold it. */
  to: string
  subject: string
  /** Lines as they are to be read; no HTML. */
  text: string
}

/** Hands letters on. Which driver stands behind it is compose.ts's business. */
export interface Mailer {
  /** Resolves once the letter is out of our hands. Rejects when it could not be handed on; it may have been all the same. */
  send(letter: Letter): Promise<void>
}
