import {
  type Check,
  type Fault,
  faultOf,
  isBoolean,
  isFilledText,
  isModelId,
  isNumberFrom,
  isObjectWith,
  isOneOf,
  isProviderChoice,
  isText,
  optional,
  type ProviderChoice,
} from './fault.ts'
import { isRecord } from './record.ts'

const isFormat = isOneOf('json', 'text', 'srt', 'vtt', 'verbose_json', 'diarized_json')
const isTemperature = isNumberFrom(0, 1)

const isRequest = isObjectWith({
  model: isModelId,
  input_audio: isObjectWith({ data: isFilledText, format: isFilledText }),
  response_format: optional(isFormat),
  stream: optional(isBoolean),
  language: optional(isText),
  prompt: optional(isText),
  temperature: optional(isTemperature),
  provider: optional(isProviderChoice),
})

/**
 * Checks the JSON body of a transcription, whose audio is the base64 in `input_audio.data`. Returns the first fault. The caller
 * checks that the base64 decodes.
 */
export function checkTranscriptionRequest(body: unknown): Fault | undefined {
  return isRequest(body)
}

const DECIMAL = /^(?:\d+(?:\.\d+)?|\.\d+)$/
const DECIMAL_LENGTH_MAX = 32
const isDecimalTemperature: Check = (value) =>
  isTemperature(
    typeof value === 'string' && value.length <= DECIMAL_LENGTH_MAX && DECIMAL.test(value) ? Number(value) : undefined,
  )

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const isProviderText: Check = (value) => {
  const choice = typeof value === 'string' ? parseJson(value) : undefined
  return isRecord(choice) ? isProviderChoice(choice) : faultOf('must be a JSON object')
}

/** Accepts a field sent at most once. A form's empty field counts as absent. */
function optionalOnce(check: Check): Check {
  return (value) => {
    if (value === undefined || value === '') return undefined
    return Array.isArray(value) ? faultOf('must be sent once') : check(value)
  }
}

const areFields = isObjectWith({
  model: (value) => (Array.isArray(value) ? faultOf('must be sent once') : isModelId(value)),
  response_format: optionalOnce(isFormat),
  stream: optionalOnce(isOneOf('true', 'false')),
  language: optionalOnce(isText),
  prompt: optionalOnce(isText),
  temperature: optionalOnce(isDecimalTemperature),
  provider: optionalOnce(isProviderText),
})

/**
 * Checks the text fields of a multipart transcription; the caller checks the file. `provider` is JSON text, which
 * `providerChoiceOf` reads.
 *
 * fields: by name as sent; a repeated field is an array. Unknown fields pass.
 */
export function checkTranscriptionFields(
  fields: Readonly<Record<string, string | readonly string[]>>,
): Fault | undefined {
  return areFields(fields)
}

/**
 * Reads the `provider` field of a multipart transcription: JSON text of a ProviderChoice.
 *
 * Returns undefined if the field is absent or empty, repeated, or has a fault.
 */
export function providerChoiceOf(field: string | readonly string[] | undefined): ProviderChoice | undefined {
  if (typeof field !== 'string' || isProviderText(field) !== undefined) return undefined
  // isProviderText has established the shape.
  return parseJson(field) as ProviderChoice
}
