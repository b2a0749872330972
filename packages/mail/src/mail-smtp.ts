import type { Mailer } from './mailer.ts'

/** Longer than any healthy server takes; a stop waits at most this long. */
const STEP_MS = 10_000

interface MailSmtpOptions {
  /** smtp: (with STARTTLS if the server offers it) or smtps:, with credentials; nodemailer's options in the query. */
  url: string
  from: string
}

/**
 * Sends messages to an SMTP server, over a connection each, since they are few. Loads the client, which takes 3 MB: an installation
 * that keeps its mail in a folder does without it.
 */
export async function openMailSmtp({ url, from }: MailSmtpOptions): Promise<Mailer> {
  const { createTransport } = await import('nodemailer')
  const transport = createTransport({
    url,
    connectionTimeout: STEP_MS,
    greetingTimeout: STEP_MS,
    socketTimeout: STEP_MS,
    dnsTimeout: STEP_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return {
    async send({ to, subject, text }) {
      // As an object: a string would be parsed, and a comma in an address would split it in two.
      await transport.sendMail({ from, to: { name: '', address: to }, subject, text }).catch((error: unknown) => {
        // Without the server's own message, which would be logged and may quote the address.
        const { code, command, responseCode } = error as { code?: string; command?: string; responseCode?: number }
        const what = [code, command, responseCode].filter((part) => part !== undefined).join(' ')
        throw new Error(`The mail server did not take a letter: ${what}`)
      })
    },
  }
}
