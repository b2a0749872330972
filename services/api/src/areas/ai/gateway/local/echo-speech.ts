import { AiError } from '@platform/errors/ai-error'
import type { SpeechRequest } from '@platform/ai-protocols/speech-request'
import { EVENT_STREAM, writeEvents } from './event-stream.ts'
import type { LocalAnswer, LocalCall } from './local-answer.ts'
import { tokensOfBytes } from './token-estimate.ts'
import { writeWav } from './wav.ts'

/** The format of OpenAI's pcm: 24 kHz, one channel, 16 bits, little-endian. */
const SAMPLE_RATE = 24_000
const SAMPLES_PER_CHARACTER = SAMPLE_RATE / 25
const SAMPLES_MAX = 60 * SAMPLE_RATE
const LOUDNESS = 6_000
const EVENT_BYTES = 48_000
const COMMENT = 'local/echo-speech is no speech synthesis: a tone for each character'

/** Makes a tone for each character: the higher its code point, the higher the tone. Spaces are silent. */
function tonesOf(text: string, speed: number): Buffer {
  const samplesEach = Math.round(SAMPLES_PER_CHARACTER / speed)
  const characters = Array.from(text.slice(0, 2 * Math.ceil(SAMPLES_MAX / samplesEach)))
  const length = Math.min(characters.length * samplesEach, SAMPLES_MAX)
  const samples = Buffer.alloc(2 * length)
  for (let offset = 0; offset < length; offset += 1) {
    const character = characters[Math.floor(offset / samplesEach)] ?? ' '
    if (character === ' ') continue
    // A triangle wave, whose period is a whole number of samples: from 240 Hz up to 1,000 Hz.
    const period = 100 - ((character.codePointAt(0) ?? 0) % 76)
    const phase = (offset % period) / period
    samples.writeInt16LE(Math.round(LOUDNESS * (4 * Math.abs(phase - 0.5) - 1)), 2 * offset)
  }
  return samples
}

function* speechEvents(sound: Buffer, input: string): Generator {
  for (let offset = 0; offset < sound.length; offset += EVENT_BYTES)
    yield {
      type: 'speech.audio.delta',
      audio: sound.toString('base64', offset, Math.min(offset + EVENT_BYTES, sound.length)),
    }
  const tokens = tokensOfBytes(Buffer.byteLength(input))
  yield { type: 'speech.audio.done', usage: { input_tokens: tokens, output_tokens: 0, total_tokens: tokens } }
}

/**
 * Answers a speech request with a tone of 40 ms per character, at most 60 s in all; `speed` shortens or lengthens them.
 *
 * `response_format` is wav, the default, or pcm. Throws AiError `unsupported_parameter` for any other.
 */
export function answerSpeech(request: SpeechRequest, { signal }: LocalCall): LocalAnswer {
  const format = request.response_format ?? 'wav'
  if (format !== 'wav' && format !== 'pcm')
    throw new AiError(
      400,
      'invalid_request_error',
      'unsupported_parameter',
      `${request.model} makes wav and pcm, not ${format}`,
      { param: 'response_format' },
    )
  const samples = tonesOf(request.input, request.speed ?? 1)
  const sound = format === 'wav' ? writeWav(samples, SAMPLE_RATE, COMMENT) : samples
  if (request.stream_format === 'sse')
    return { status: 200, contentType: EVENT_STREAM, body: writeEvents(speechEvents(sound, request.input), signal) }
  return { status: 200, contentType: `audio/${format}`, body: sound }
}
