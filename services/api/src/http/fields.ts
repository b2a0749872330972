import { z } from '@hono/zod-openapi'

/** YYYY-MM-DDTHH:MM:SS.mmmZ from year 1 on (D26). Accepts days that the month does not have, such as 30 February. */
const INSTANT =
  /^([1-9]\d{3}|0[1-9]\d{2}|00[1-9]\d|000[1-9])-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$/

/** Control characters, as the inside of a character class. */
const CONTROLS = String.raw`\u0000-\u001F\u007F-\u009F`
/** The same but for tabs and the ends of lines. */
const CONTROLS_WITHIN_LINES = String.raw`\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F`

/** As a pattern for the document: text that is not blank and has no control characters. */
const NAME = String.raw`^[^${CONTROLS}]*[^\s${CONTROLS}][^${CONTROLS}]*$`

/** A UUID of any version, in any case (D16). Lower-cased when parsed, as Postgres writes it. */
export const id = z
  .guid()
  .overwrite((text) => text.toLowerCase())
  .openapi({ example: '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10' })

/**
 * ISO 8601 in UTC with milliseconds on the wire, in both directions; a Date in code (A §1, D26). Validated on input only:
 * output always starts as a Date.
 */
export const instant = z.codec(
  z.string().openapi({ format: 'date-time', pattern: INSTANT.source, example: '2026-11-21T09:30:00.000Z' }),
  z.date(),
  {
    decode(text, { issues }) {
      const date = new Date(INSTANT.test(text) ? text : Number.NaN)
      // The Date constructor would roll 30 February over into March.
      if (!Number.isNaN(date.getTime()) && date.toISOString() === text) return date
      issues.push({
        code: 'invalid_format',
        format: 'datetime',
        input: text,
        message: 'Expected YYYY-MM-DDTHH:MM:SS.mmmZ',
      })
      return z.NEVER
    },
    encode: (date) => date.toISOString(),
  },
)

/** True for text that Postgres and JSON preserve: no NUL, no lone surrogate. */
const isText = (text: string): boolean => text.isWellFormed() && !text.includes('\0')

/** A name without control characters: 1 to 255 code points after NFC normalization and trimming (D28, D95). */
export const name = z
  .string()
  .refine((text) => text.isWellFormed() && !/\p{Cc}/u.test(text), 'Expected text without control characters')
  .overwrite((text) => text.normalize('NFC').trim())
  .refine((text) => text !== '' && Array.from(text).length <= 255, 'Expected 1 to 255 characters')
  .openapi({ minLength: 1, maxLength: 255, pattern: NAME, example: 'Acme' })

/** Free text of at most `bytesMax` bytes of UTF-8. */
export const text = (bytesMax: number) =>
  z
    .string()
    .refine(isText, 'Expected text without NUL and lone surrogates')
    .refine((value) => Buffer.byteLength(value) <= bytesMax, `Expected at most ${bytesMax} bytes`)
    .openapi({ maxLength: bytesMax, pattern: '^[^\\u0000]*$' })

function textWithout(controls: string, charactersMax: number) {
  const allowed = new RegExp(`^[^${controls}]*$`, 'u')
  return z
    .string()
    .refine((text) => text.isWellFormed() && allowed.test(text), 'Expected text without control characters')
    .refine((text) => Array.from(text).length <= charactersMax, `Expected at most ${charactersMax} characters`)
    .openapi({ maxLength: charactersMax, pattern: allowed.source })
}

/** Text of at most `charactersMax` code points without control characters. */
export const line = (charactersMax: number) => textWithout(CONTROLS, charactersMax)

/** The same, with tabs and ends of lines. */
export const lines = (charactersMax: number) => textWithout(CONTROLS_WITHIN_LINES, charactersMax)

/** Response text, with an example. */
export const shown = (example: string) => z.string().openapi({ example })

export const imageUrl = shown('https://images.example.com/acme.png')

/** A UUID in the path. An invalid one is answered like a missing `resource` (A §7, D16). */
export function pathId(resource: string): PathParam {
  const named = resource.startsWith('API') ? resource : resource.toLowerCase()
  return { schema: id.openapi({ description: `The id of the ${named}.` }), resource }
}

export interface PathParam {
  schema: z.ZodType<string>
  /** The query parameter that carries the value on paths of the operation that lack it. */
  orQuery?: string
  /** What the 404 names. */
  resource: string
}
