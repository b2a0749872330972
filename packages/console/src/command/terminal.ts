import { signal } from '@preact/signals'
import type { Application } from '@platform/sdk'
import { useEffect } from 'preact/hooks'

/**
 * How a terminal does what the console does: by the command line, or by curl where the command line has no word for it. A secret is in
 * neither: isValuePiped says that the command line reads a value from stdin.
 */
export type TerminalLine =
  | {
      /** What follows `platform`, such as `['env', 'ls', '--app', 'acme/shop']`. */
      words: readonly string[]
      /** Comes last. What begins with `-` is no flag here. */
      names?: readonly string[]
      isValuePiped?: boolean
    }
  | { method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'; path: string; body?: unknown }

/** What the page that is shown reads, and what was done last, there or on the way to it. */
export const shownLine = signal<TerminalLine | undefined>(undefined)
export const doneLine = signal<TerminalLine | undefined>(undefined)

/** Tells the drawer how a terminal reads what this page shows. */
export function useLine(line: TerminalLine): void {
  useEffect(() => {
    shownLine.value = line
  }, [JSON.stringify(line)])
  useEffect(() => () => void (shownLine.value = undefined), [])
}

/** Tells the drawer how a terminal does what was just done. */
export function didAs(line: TerminalLine): void {
  doneLine.value = line
}

/** How the command line is told which application is meant. */
export const appWords = ({ organization, slug }: Pick<Application, 'organization' | 'slug'>): string[] => [
  '--app',
  `${organization.slug}/${slug}`,
]

const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)

/** The line, for a POSIX shell. The token of a curl and a secret are variables of that shell. */
export function textOf(line: TerminalLine, apiUrl: string): string {
  if ('words' in line) {
    const { words, names = [], isValuePiped = false } = line
    const isDashed = names.some((name) => name.startsWith('-'))
    const command = ['platform', ...words, ...(isDashed ? ['--'] : []), ...names].map(quoted).join(' ')
    return isValuePiped ? `printf %s "$VALUE" | ${command}` : command
  }
  const { method, path, body } = line
  const verb = method === 'GET' ? '' : `-X ${method} `
  const parts = [`curl -fsS ${verb}${quoted(apiUrl + path)}`, '-H "Authorization: Bearer $PLATFORM_TOKEN"']
  if (body !== undefined) parts.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body))}`)
  return parts.join(' \\\n  ')
}
