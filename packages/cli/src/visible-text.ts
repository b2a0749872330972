/* oxlint-disable no-control-regex -- control characters are what is looked for */

/** Select Graphic Rendition: colours, and nothing that moves the cursor or speaks to the terminal. */
const SGR = /\u001b\[[0-9;:]*m/g
/**
 * Other escape sequences, to their ends: CSI, strings (OSC, DCS, APC, PM, SOS), and those of one or two characters. A string that
 * does not end takes no more than its line with it.
 */
const SEQUENCES =
  /(?:\u001b\[|\u009b)[0-?]*[ -/]*[@-~]?|(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\n\u0007\u001b\u009c]*(?:\u0007|\u001b\\|\u009c)?|\u001b[ -/]*[0-~]?/g
/** Controls but for tab and line feed, and what turns the direction of text around. */
const CONTROLS = /[\0-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** The text as a terminal may show it: without control characters and sequences, but for colours where they are wanted. */
export function visibleText(text: string, hasColours: boolean): string {
  const clean = (part: string): string => part.replace(SEQUENCES, '').replace(CONTROLS, '')
  if (!hasColours) return clean(text)
  let shown = ''
  let end = 0
  for (const { 0: colour, index } of text.matchAll(SGR)) {
    shown += clean(text.slice(end, index)) + colour
    end = index + colour.length
  }
  return shown + clean(text.slice(end))
}

/** Text of others as one line: what they called something cannot look like a line of ours. */
export const inOneLine = (text: string): string => text.replace(/\s*[\r\n]+\s*/g, ' ')

/** JSON in which no byte reaches a terminal as a control: `JSON.stringify` leaves DEL and C1 as they are. */
export const visibleJson = (value: unknown): string =>
  JSON.stringify(value).replace(
    /[\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )

/** Of a table: two spaces between columns, the last one as long as it is. */
export function tableOf(header: readonly string[], rows: readonly (readonly string[])[]): string {
  // By cell: what one holds does not take the next one with it.
  const cells = [header, ...rows].map((row) => row.map((cell) => inOneLine(visibleText(cell, false))))
  const widths = header.map((_, column) => Math.max(...cells.map((row) => Array.from(row[column] ?? '').length)))
  const lineOf = (row: readonly string[]) =>
    row
      .map((cell, column) =>
        column === row.length - 1 ? cell : cell + ' '.repeat((widths[column] ?? 0) - Array.from(cell).length),
      )
      .join('  ')
  return cells.map((row) => lineOf(row).trimEnd()).join('\n')
}

/** A number of bytes, as people read it. */
export function bytesText(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let [value, unit] = [bytes, 0]
  while (value >= 1_000 && unit < units.length - 1) [value, unit] = [value / 1_000, unit + 1]
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`
}

/** A number of things, as people read it. */
export const countText = (count: number, thing: string): string => `${count} ${thing}${count === 1 ? '' : 's'}`

/** A word as a shell takes it. */
export const shellWord = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
