/** The text is not a file of variables. */
export class DotenvError extends Error {}

const KEY = /^[A-Za-z_]\w*$/

/** Nothing but a comment, at most. It may end in a carriage return, which `.` is not. */
const BLANK = /^\s*(?:#[^]*)?$/

/** What a value looks like without quotes. */
const PLAIN = /^[\w@%+:,./-]*$/

/**
 * Writes variables as a file that dotenv, Node's `--env-file` and shells read too, as far as their languages go: they all take
 * what is between single quotes as it is. Only a value with a single quote or a carriage return needs more, and `parseDotenv` reads
 * every value back byte for byte.
 */
export function writeDotenv(variables: readonly { key: string; value: string }[]): string {
  return variables.map(({ key, value }) => `${checked(key)}=${quoted(value)}\n`).join('')
}

/** A platform that answers another name would write lines of its own. */
function checked(key: string): string {
  if (!KEY.test(key)) throw new DotenvError(`"${key}" is not the name of a variable`)
  return key
}

function quoted(value: string): string {
  if (PLAIN.test(value)) return value
  if (!/['\r]/.test(value)) return `'${value}'`
  const escaped = value
    .replace(/["\\$`]/g, '\\$&')
    .replaceAll('\n', '\\n')
    .replaceAll('\r', '\\r')
  return `"${escaped}"`
}

const ESCAPES: Record<string, string> = { n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\', $: '$', '`': '`' }

/**
 * Reads a file of variables: `KEY=value` lines, with or without `export`. Between single quotes or backticks a value is as it
 * stands, with its line breaks; between double quotes a backslash escapes n, r, t, ", \, $ and `. Nothing is expanded. Of a key that is
 * there twice the last counts. Throws DotenvError with the number of the line.
 */
export const parseDotenv = (text: string): Map<string, string> =>
  new Map(readDotenv(text).map(({ key, value }) => [key, value]))

/** As parseDotenv, with each line of a key that is there more than once, in the order of the file. */
export function readDotenv(text: string): { key: string; value: string }[] {
  const variables: { key: string; value: string }[] = []
  let place = text.startsWith('\uFEFF') ? 1 : 0
  const fail = (what: string): never => {
    throw new DotenvError(`Line ${text.slice(0, place).split('\n').length}: ${what}`)
  }
  const lineEnd = (from: number): number => {
    const end = text.indexOf('\n', from)
    return end === -1 ? text.length : end
  }
  while (place < text.length) {
    const line = text.slice(place, lineEnd(place))
    if (BLANK.test(line)) {
      place = lineEnd(place) + 1
      continue
    }
    const equals = line.indexOf('=')
    const key = line
      .slice(0, equals)
      .replace(/^\s*export\s+/, '')
      .trim()
    if (equals === -1 || !KEY.test(key)) fail('expected KEY=value')
    let start = place + equals + 1
    while (text[start] === ' ' || text[start] === '\t') start++
    const quote = text[start]
    if (quote === "'" || quote === '"' || quote === '`') {
      const end = endOf(text, start + 1, quote)
      if (end === -1) fail(`the value of ${key} has no closing ${quote}`)
      const rest = text.slice(end + 1, lineEnd(end))
      if (!BLANK.test(rest)) fail(`there is more behind the value of ${key}`)
      const inside = text.slice(start + 1, end)
      const value =
        quote === '"' ? inside.replace(/\\(.)/gs, (all, character: string) => ESCAPES[character] ?? all) : inside
      variables.push({ key, value })
      place = lineEnd(end) + 1
    } else {
      const value = text
        .slice(start, lineEnd(start))
        .replace(/(?:^|\s)#[^]*$/, '')
        .trim()
      variables.push({ key, value })
      place = lineEnd(start) + 1
    }
  }
  return variables
}

function endOf(text: string, from: number, quote: string): number {
  for (let place = from; place < text.length; place++) {
    if (quote === '"' && text[place] === '\\') place++
    else if (text[place] === quote) return place
  }
  return -1
}
