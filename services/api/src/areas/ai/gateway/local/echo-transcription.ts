import { AiError } from '@platform/errors/ai-error'
import { EVENT_STREAM, wordsOf, writeEvents } from './event-stream.ts'
import type { LocalAnswer, LocalCall } from './local-answer.ts'
import { tokensOfBytes } from './token-estimate.ts'
import { readWav, type WavFormat } from './wav.ts'

/** The relevant members of a transcription; in a form they are texts, and empty ones count as absent. */
export interface LocalTranscriptionRequest {
  model: string
  response_format?: string | null
  stream?: boolean | string | null
}

/** If a WAV file's samples start later than this, its length stays unknown. */
const HEAD_BYTES_MAX = 65_536

async function headOf(file: NonNullable<LocalCall['file']>): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of file.read()) {
    chunks.push(chunk)
    length += chunk.length
    if (length >= HEAD_BYTES_MAX) break
  }
  return Buffer.concat(chunks)
}

const counted = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? '' : 's'}`
const rounded = (seconds: number): number => Math.round(seconds * 1_000) / 1_000

function textAbout(bytes: number, wav: WavFormat | undefined): string {
  const sound = wav
    ? `${counted(rounded(wav.seconds), 'second')} of WAV, ${counted(wav.channels, 'channel')} at ${wav.sampleRate} Hz`
    : 'which are no WAV file'
  return `local/echo-transcribe is no speech recognition; it received ${counted(bytes, 'byte')}, ${sound}.`
}

/** Formats a subtitle time: hours:minutes:seconds, `point`, milliseconds. */
function timeOf(seconds: number, point: ',' | '.'): string {
  const ms = Math.round(seconds * 1_000)
  const [hours, minutes, rest] = [Math.floor(ms / 3_600_000), Math.floor(ms / 60_000) % 60, Math.floor(ms / 1_000) % 60]
  const clock = [hours, minutes, rest].map((part) => String(part).padStart(2, '0')).join(':')
  return `${clock}${point}${String(ms % 1_000).padStart(3, '0')}`
}

function segmentOf(text: string, seconds: number) {
  const figures = { temperature: 0, avg_logprob: 0, compression_ratio: 1, no_speech_prob: 0 }
  return { id: 0, seek: 0, start: 0, end: seconds, text, tokens: [], ...figures }
}

const json = (value: unknown): LocalAnswer => ({
  status: 200,
  contentType: 'application/json',
  body: Buffer.from(JSON.stringify(value)),
})

const plain = (contentType: string, text: string): LocalAnswer => ({
  status: 200,
  contentType: `${contentType}; charset=utf-8`,
  body: Buffer.from(text),
})

function* transcriptEvents(text: string, usage: unknown): Generator {
  for (const delta of wordsOf(text)) yield { type: 'transcript.text.delta', delta }
  yield { type: 'transcript.text.done', text, usage }
}

/**
 * Answers a transcription with a sentence about the file: its bytes and, for a WAV file, its length and format. Recognizes no
 * words. The answer is json, text, srt, vtt or verbose_json, or a stream of events, whatever the format.
 *
 * Throws AiError `unsupported_parameter` for diarized_json, since there are no speakers.
 */
export async function answerTranscription(
  request: LocalTranscriptionRequest,
  { file, signal }: LocalCall,
): Promise<LocalAnswer> {
  if (!file) throw new Error('A transcription has a file')
  const wav = readWav(await headOf(file), file.bytes)
  const seconds = rounded(wav?.seconds ?? 0)
  const text = textAbout(file.bytes, wav)
  const output = tokensOfBytes(Buffer.byteLength(text))
  const usage = { type: 'tokens', input_tokens: 0, output_tokens: output, total_tokens: output }
  if (request.stream === true || request.stream === 'true') {
    const body = writeEvents(transcriptEvents(text, usage), signal)
    return { status: 200, contentType: EVENT_STREAM, body }
  }
  // Players do not show a cue of zero length.
  const end = seconds || 1
  switch (request.response_format || 'json') {
    case 'json':
      return json({ text, usage })
    case 'text':
      return plain('text/plain', `${text}\n`)
    case 'srt':
      return plain('application/x-subrip', `1\n${timeOf(0, ',')} --> ${timeOf(end, ',')}\n${text}\n\n`)
    case 'vtt':
      return plain('text/vtt', `WEBVTT\n\n${timeOf(0, '.')} --> ${timeOf(end, '.')}\n${text}\n\n`)
    case 'verbose_json': {
      const segments = [segmentOf(text, seconds)]
      const duration = { type: 'duration', seconds: Math.ceil(seconds) }
      return json({ task: 'transcribe', language: 'english', duration: seconds, text, segments, usage: duration })
    }
    default:
      throw new AiError(
        400,
        'invalid_request_error',
        'unsupported_parameter',
        `${request.model} does not answer in ${request.response_format}`,
        { param: 'response_format' },
      )
  }
}
