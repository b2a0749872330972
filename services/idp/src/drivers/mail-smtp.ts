import { createTransport } from 'nodemailer'
import type { Mailer } from '../features/mail/mailer.ts'

/** Longer than any server takes that is well; a stop waits this long at most. */
const STEP_MS = 10_000

interface MailSmtpOptions {
  /** smtp: (with STARTTLS where the server offers it) or smtps:, credentials and nodemailer's options in its query. */
  url: string
  from: string
}

/** Hands letters to an SMTP server, over a connection for each: they are few. */
export function createMailSmtp({ url, from }: MailSmtpOptions): Mailer {
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
      // As an object: text would be parsed, and a comma in an address would make two of it.
      await transport.sendMail({ from, to: { name: '', address: to }, subject, text }).catch((error: unknown) => {
        // Without the server's own words, which may quote the address: they would be logged.
        const { code, command, responseCode } = error as { code?: string; command?: string; responseCode?: number }
        const what = [code, command, responseCode].filter((part) => part !== undefined).join(' ')
        throw new Error(`The mail server did not take a letter: ${what}`)
      })
    },
  }
}
