/** Replacing shorter values would blot out ordinary words. */
const LENGTH_MIN = 6
const MASK = '[redacted]'

/** The base64 spellings of a value at any position within encoded bytes, one for each of the three alignments. */
function* base64Spellings(value: string): Generator<string> {
  const bytes = Buffer.from(value)
  for (let before = 0; before < 3; before++) {
    const encoded = Buffer.concat([Buffer.alloc(before), bytes]).toString('base64')
    // Only characters whose bits all belong to the value: those at its edges depend on neighbouring bytes.
    const spelling = encoded.slice(Math.ceil((before * 8) / 6), Math.floor(((before + bytes.length) * 8) / 6))
    yield spelling
    yield spelling.replaceAll('+', '-').replaceAll('/', '_')
  }
}

function* spellingsOf(value: string): Generator<string> {
  yield value
  yield JSON.stringify(value).slice(1, -1)
  // A lone surrogate cannot be URL-encoded, and arrives as U+FFFD.
  const urlEncoded = encodeURIComponent(value.toWellFormed())
  const strict = urlEncoded.replaceAll(/[!'()*]/g, (each) => `%${each.charCodeAt(0).toString(16).toUpperCase()}`)
  const ofForm = new URLSearchParams({ '': value }).toString().slice(1)
  for (const encoded of [urlEncoded, strict, urlEncoded.replaceAll('%20', '+'), ofForm]) {
    yield encoded
    yield encoded.replaceAll(/%[0-9A-F]{2}/g, (each) => each.toLowerCase())
  }
  yield* base64Spellings(value)
}

/** Removes secrets from text that arrives in pieces. */
export interface Redactor {
  /** Accepts the next piece and returns the text that cannot belong to an unfinished secret. */
  write(text: string): string
  /** Returns the rest. */
  end(): string
  /** Returns the rest of a text whose continuation is not shown: a secret that begins at its end is replaced too. */
  cut(): string
}

/**
 * Creates the redactors of a deployment, one for each stream of text. Every value of 6 characters or more is replaced anywhere in
 * the text: literal, URL-encoded, JSON-escaped, in base64 and base64url at any alignment; and so is each such line of a
 * multi-line value. Secrets are found across the borders of pieces. Overlapping secrets are replaced together.
 */
export function createRedaction(values: Iterable<string>): () => Redactor {
  /** Spellings by their first characters, longest first. */
  const byStart = new Map<string, string[]>()
  let lengthMax = 0
  const parts = [...values].flatMap((value) => [value, value.trim(), ...value.split(/\r?\n/)])
  const spellings = new Set(
    parts.filter(({ length }) => length >= LENGTH_MIN).flatMap((part) => [...spellingsOf(part)]),
  )
  for (const spelling of [...spellings].toSorted((a, b) => b.length - a.length)) {
    if (spelling.length < LENGTH_MIN) continue
    const start = spelling.slice(0, LENGTH_MIN)
    const known = byStart.get(start)
    if (known) known.push(spelling)
    else byStart.set(start, [spelling])
    lengthMax = Math.max(lengthMax, spelling.length)
  }

  return () => {
    let waiting = ''
    /** Characters at the start of `waiting` that belong to a secret whose mask has been written. */
    let masked = 0
    /** Redacts up to `end`, after which a secret may have begun. isCut: the text that follows `waiting` is not shown. */
    function redactUpTo(end: number, isCut = false): string {
      let out = ''
      let copied = masked
      for (let index = 0; index < end; index++) {
        const spelling = byStart
          .get(waiting.slice(index, index + LENGTH_MIN))
          ?.find((each) => waiting.startsWith(each, index) || (isCut && each.startsWith(waiting.slice(index))))
        if (spelling === undefined) continue
        if (index >= copied) out += waiting.slice(copied, index) + MASK
        copied = Math.max(copied, index + spelling.length)
      }
      if (copied < end) out += waiting.slice(copied, end)
      masked = Math.max(0, copied - end)
      waiting = waiting.slice(end)
      return out
    }
    return {
      write(text) {
        waiting += text
        return redactUpTo(Math.max(0, waiting.length - Math.max(0, lengthMax - 1)))
      },
      end: () => redactUpTo(waiting.length),
      cut: () => redactUpTo(waiting.length, true),
    }
  }
}
