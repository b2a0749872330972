import { hasFolderIfFile } from '@platform/runtime/config'
import { z } from 'zod'

/** The variables of a service that sends mail. */
export const mailVariables = {
  MAIL_URL: z
    .url({ protocol: /^(smtps?|file)$/ })
    .refine((url) => url.startsWith('file:') || URL.parse(url)?.hostname !== '', 'it names no host')
    .refine(hasFolderIfFile, 'file: takes three slashes and a folder')
    .optional()
    .describe('a URL for mail, such as smtps://user:password@mail.example.com or file:///var/mail'),
  MAIL_FROM: z
    .string()
    .regex(/^(?:[^\p{Cc}<>]+ <[^\s@<>]+@[^\s@<>]+>|[^\s@<>]+@[^\s@<>]+)$/u)
    .optional()
    .describe('the sender of mail, such as Accounts <no-reply@example.com>'),
}
