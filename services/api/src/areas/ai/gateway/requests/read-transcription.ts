import {
  checkTranscriptionFields,
  checkTranscriptionRequest,
  providerChoiceOf,
} from '@platform/ai-protocols/transcription-request'
import { mediaType } from '@platform/service/read-body'
import { createAudioForm } from './audio-form.ts'
import type { InferenceRequest } from '../operations.ts'
import { readAudioForm } from './read-audio-form.ts'
import {
  AUDIO_JSON_BYTES_MAX,
  BODY_BYTES_MAX,
  type Fields,
  holdMemory,
  invalidBody,
  isStream,
  readJsonBody,
  type ReadRequest,
  reading,
  requestOf,
} from './read-inference.ts'
import { requireSize, requireType } from './read-request.ts'
import type { UploadedAudio } from './uploaded-audio.ts'

const operation = 'audio.transcriptions'
const types = ['multipart/form-data', 'application/json']

type SentFields = readonly (readonly [name: string, value: string])[]

/** Groups fields by name; a repeated field becomes an array. */
function byName(fields: SentFields): Record<string, string | string[]> {
  const groups = Map.groupBy(fields, ([name]) => name)
  return Object.fromEntries(
    [...groups].map(([name, all]) => [name, all.length === 1 ? (all[0]?.[1] ?? '') : all.map(([, value]) => value)]),
  )
}

function withAudio(body: Fields, sent: SentFields, file: UploadedAudio): InferenceRequest {
  const request = requestOf(operation, body, isStream(body) ? 'events' : 'whole')
  const others = sent.filter(([name]) => name !== 'model' && name !== 'provider')
  return { ...request, audio: { file, formFor: (model) => createAudioForm([['model', model], ...others], file) } }
}

const asText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))

/** Converts members of a JSON request to form fields. */
const asFields = (body: Fields): SentFields =>
  Object.entries(body).flatMap(([name, value]): (readonly [string, string])[] => {
    if (value == null || name === 'input_audio' || name === 'metadata') return []
    if (Array.isArray(value)) return value.map((item) => [`${name}[]`, asText(item)] as const)
    return [[name, asText(value)]]
  })

/** Decodes the base64 audio of a JSON body. Throws the 422 if it is invalid. */
function decodedAudio({ input_audio: audio }: Fields): UploadedAudio {
  const { data, format } = audio as { data: string; format: string }
  const bytes = Buffer.from(data, 'base64')
  // Node decodes what it can and ignores the rest.
  if (bytes.length === 0 || !/^[A-Za-z0-9+/\s_-]*={0,2}$/.test(data.trimEnd()))
    throw invalidBody({ path: ['input_audio', 'data'], message: 'must be base64' })
  if (!/^[A-Za-z0-9]{1,16}$/.test(format))
    throw invalidBody({ path: ['input_audio', 'format'], message: 'must be the name of a format, such as wav' })
  return {
    name: `audio.${format.toLowerCase()}`,
    type: `audio/${format.toLowerCase()}`,
    bytes: bytes.length,
    write: () => Promise.reject(new Error('The file is whole')),
    async *read() {
      yield bytes
    },
    [Symbol.asyncDispose]: async () => {},
  }
}

/** Reads a transcription: a form with a file, as all clients of this API send it, or JSON with base64 (D23). */
export const readTranscription: ReadRequest = (call) => {
  const { incoming } = call.exchange
  const { take, release } = holdMemory(call)
  let file: UploadedAudio | undefined
  const dispose = async () => file?.[Symbol.asyncDispose]()
  return reading(release, dispose, async () => {
    if (mediaType(incoming) === 'application/json') {
      const body = await readJsonBody(call, take, AUDIO_JSON_BYTES_MAX)
      call.describe(body)
      const fault = checkTranscriptionRequest(body)
      if (fault) throw invalidBody(fault)
      return withAudio(body, asFields(body), decodedAudio(body))
    }
    // Size first, then type (D18). The size of a form is checked while it arrives.
    if (mediaType(incoming) !== 'multipart/form-data') requireSize(incoming, BODY_BYTES_MAX)
    requireType(incoming, types)
    const form = await readAudioForm(incoming, BODY_BYTES_MAX, take)
    file = form.file
    const body = byName(form.fields)
    call.describe(body)
    const fault = checkTranscriptionFields(body)
    if (fault) throw invalidBody(fault)
    if (!file) throw invalidBody({ path: ['file'], message: 'is missing' })
    return withAudio({ ...body, provider: providerChoiceOf(body['provider']) }, form.fields, file)
  })
}
