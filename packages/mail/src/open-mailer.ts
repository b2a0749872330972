import { fileURLToPath } from 'node:url'
import { platformName } from '@platform/look/name'
import type { Logger } from '@platform/runtime/logger'
import { createMailFolder } from './mail-folder.ts'
import { openMailSmtp } from './mail-smtp.ts'
import type { Mailer } from './mailer.ts'
import { createSignedMailer } from './signed-mailer.ts'

interface MailerOptions {
  /** MAIL_URL; undefined if the service sends no mail. */
  url: string | undefined
  /** The sender; undefined: no-reply at the site. */
  from: string | undefined
  /** The site that signs the letters: the one that their links lead to. */
  site: string
  now: () => Date
  logger: Logger
}

/** Opens the mailer that MAIL_URL names, a folder or an SMTP server; undefined if it names none. */
export async function openMailer({ url, from: sender, site, now, logger }: MailerOptions): Promise<Mailer | undefined> {
  if (url === undefined) return undefined
  const { host, hostname } = new URL(site)
  const from = sender ?? `${platformName} <no-reply@${hostname}>`
  const mailer = url.startsWith('file:')
    ? createMailFolder({ folder: fileURLToPath(url), from, now, logger })
    : await openMailSmtp({ url, from })
  return createSignedMailer(mailer, host)
}
