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
} from './fault.ts'

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
 * Checks the JSON body of a transcription, whose sound is the base64 of `input_audio.data`. Returns the first fault. That the
 * base64 decodes is for the caller to see.
 */
export function checkTranscriptionRequest(body: unknown): Fault | undefined {
  return isRequest(body)
}

const DECIMAL = /^\d*\.?\d+$/
const isDecimalTemperature: Check = (value) =>
  isTemperature(typeof value === 'string' && DECIMAL.test(value) ? Number(value) : undefined)

/** Takes a field that was sent once. A form's empty field counts as absent. */
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
})

/**
 * Checks the text fields of a multipart transcription; the file is for the caller to see.
 *
 * fields: by name as sent; a field that was sent more than once has an array. Unknown fields pass.
 */
export function checkTranscriptionFields(
  fields: Readonly<Record<string, string | readonly string[]>>,
): Fault | undefined {
  return areFields(fields)
}
