import { readFile } from 'node:fs/promises'
import { PASSWORD_LENGTH_MIN } from '../accounts/passwords.ts'

async function read(): Promise<ReadonlySet<string>> {
  const file = new URL(import.meta.resolve('@zxcvbn-ts/language-common/src/passwords.json'))
  // Read, not imported: a module would keep the two thirds that are shorter than our minimum in memory.
  const all = JSON.parse(await readFile(file, 'utf8')) as string[]
  return new Set(all.filter((password) => password.length >= PASSWORD_LENGTH_MIN))
}

let passwords: Promise<ReadonlySet<string>> | undefined

/**
 * The most commonly chosen passwords, in lower case: some 18,000 that are long enough, from leaks of many sites (the list of
 * zxcvbn-ts). Read when somebody first sets a password; from then on they take 1.5 MB.
 */
export function commonPasswords(): Promise<ReadonlySet<string>> {
  passwords ??= read().catch((error: unknown) => {
    passwords = undefined // the next one tries again
    throw error
  })
  return passwords
}
