import { platformName } from '@platform/look/name'
import type { Mailer } from './mailer.ts'

/** A mailer whose letters end with the platform's name and this host, after the line that begins a signature. */
export const createSignedMailer = (mailer: Mailer, host: string): Mailer => ({
  send: ({ text, ...letter }) => mailer.send({ ...letter, text: `${text}\n-- \n${platformName}\n${host}\n` }),
})
