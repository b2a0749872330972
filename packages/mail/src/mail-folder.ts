import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from '@platform/runtime/logger'
import { newId } from '@platform/runtime/new-id'
import type { Mailer } from './mailer.ts'

interface MailFolderOptions {
  folder: string
  from: string
  now: () => Date
  logger: Logger
}

const dateOf = (time: Date): string => time.toUTCString().replace('GMT', '+0000')
/** Header fields are ASCII; other text becomes an encoded word (RFC 2047), and so does what looks like one. */
const fieldText = (text: string): string =>
  /^[\x20-\x7e]*$/.test(text) && !text.includes('=?') ? text : `=?utf-8?B?${Buffer.from(text).toString('base64')}?=`

/**
 * Writes every message to a folder as an .eml file (RFC 5322) that only the owner can read. Lines are not wrapped, so that a
 * link can be copied. The log names the file, never its content.
 */
export function createMailFolder({ folder, from, now, logger }: MailFolderOptions): Mailer {
  return {
    async send({ to, subject, text }) {
      const time = now()
      const lines = [
        `From: ${from}`,
        `To: ${to}`,
        `Subject: ${fieldText(subject)}`,
        `Date: ${dateOf(time)}`,
        'MIME-Version: 1.0',
        'Content-Type: text/plain; charset=utf-8',
        'Content-Transfer-Encoding: 8bit',
        '',
        ...text.split('\n'),
        '',
      ]
      await mkdir(folder, { recursive: true, mode: 0o700 })
      const file = join(folder, `${time.toISOString().replaceAll(/[:.]/g, '-')}-${newId()}.eml`)
      // Under another name first, so that a program watching the folder only sees complete messages.
      await writeFile(`${file}.part`, lines.join('\r\n'), { mode: 0o600, flag: 'wx' })
      await rename(`${file}.part`, file)
      logger.info({ file }, 'mail written')
    },
  }
}
