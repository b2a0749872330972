import { z } from '@hono/zod-openapi'
import { id, shown } from '../../../http/fields.ts'

/** Wire shapes for the OpenAPI document. Inference bodies are checked by hand, and providers' answers pass unchanged. */
const MODEL = 'local/echo'
const anything = z.unknown()
const count = (example: number) => z.number().int().openapi({ example })
const seconds = (example: number) => count(example).openapi({ description: 'Unix time in seconds.' })

const chatExample = { model: MODEL, messages: [{ role: 'user', content: 'Hello' }] }
const responsesExample = { model: MODEL, input: 'Hello' }
const speechExample = { model: 'local/echo-speech', input: 'Hello', voice: 'alloy', response_format: 'wav' }
const transcriptionExample = {
  model: 'local/echo-transcribe',
  input_audio: { data: 'UklGRiQAAABXQVZFZm10IA==', format: 'wav' },
}
const videoExample = { model: 'local/echo-video', prompt: 'A ball that bounces', duration: 2 }

export const EventStream = z.string().openapi({
  description: 'Server-sent events. Comments keep the connection open.',
  example: 'data: {"object":"chat.completion.chunk"}\n\ndata: [DONE]\n\n',
})
export const Bytes = z.string().openapi({ type: 'string', format: 'binary', example: 'RIFF…' })
export const PlainText = shown('Hello.')
export const IdempotencyKey = z.string().optional().openapi({
  description: 'Repeats of the same request with this key get the first response, for 24 hours.',
  example: '0b6f0a52-6f5e-4b0e-9a51-4a2f8a0c6e11',
})

const model = z.string().openapi({ description: 'A model id from `GET /ai/v1/models`.', example: MODEL })
const Preferences = z
  .looseObject({
    order: z.array(z.string()).optional().openapi({ description: 'Providers to try first, in order.' }),
    allow_fallbacks: z.boolean().optional().openapi({ description: 'If false, only one provider is tried.' }),
    require_zdr: z
      .boolean()
      .optional()
      .openapi({ description: 'If true, only providers that retain no data are used.' }),
    restrict_to_order: z
      .boolean()
      .optional()
      .openapi({ description: 'If true, only the providers in `order` are used.' }),
  })
  .openapi({ description: 'Routing preferences for the gateway; not sent to providers.' })
const common = {
  user: z.string().optional().openapi({ description: 'Your own end user, recorded in usage events.' }),
  metadata: z
    .record(z.string(), z.string())
    .optional()
    .openapi({ description: 'Recorded in usage events: up to 16 values of up to 512 characters.' }),
  provider: Preferences.optional(),
}

export const ChatRequest = z
  .looseObject({
    model,
    messages: z
      .array(
        z.looseObject({
          role: z.enum(['system', 'developer', 'user', 'assistant', 'tool', 'function']),
          content: anything.optional().openapi({ description: 'Text, or an array of content parts.' }),
        }),
      )
      .min(1),
    stream: z.boolean().optional(),
    stream_options: z.looseObject({ include_usage: z.boolean().optional() }).optional(),
    max_tokens: z.number().int().min(1).optional(),
    max_completion_tokens: z.number().int().min(1).optional(),
    n: z.number().int().min(1).max(128).optional(),
    temperature: z.number().min(0).max(2).optional(),
    top_p: z.number().min(0).max(1).optional(),
    frequency_penalty: z.number().min(-2).max(2).optional(),
    presence_penalty: z.number().min(-2).max(2).optional(),
    tools: z.array(z.looseObject({ type: z.string() })).optional(),
    ...common,
  })
  .openapi('ChatCompletionRequest', { example: chatExample })

const Usage = z.looseObject({ prompt_tokens: count(5), completion_tokens: count(12), total_tokens: count(17) })
export const ChatCompletion = z
  .looseObject({
    id: shown('chatcmpl-0199a3f0'),
    object: shown('chat.completion'),
    created: seconds(1_795_000_000),
    model: shown(MODEL),
    choices: z.array(
      z.looseObject({
        index: count(0),
        message: z.looseObject({ role: shown('assistant'), content: shown('Hello').nullable() }),
        finish_reason: shown('stop').nullable(),
      }),
    ),
    usage: Usage.optional(),
  })
  .openapi('ChatCompletion')

export const ResponsesRequest = z
  .looseObject({
    model,
    input: anything.openapi({
      description: 'Text, or an array of items. Required unless a response, conversation or prompt is continued.',
    }),
    stream: z.boolean().optional(),
    max_output_tokens: z.number().int().min(1).optional(),
    previous_response_id: z.string().optional(),
    store: z.boolean().optional(),
    ...common,
  })
  .openapi('ResponseRequest', { example: responsesExample })

export const Response = z
  .looseObject({
    id: shown('resp_0199a3f0'),
    object: shown('response'),
    created_at: z.number().openapi({ example: 1_795_000_000 }),
    status: shown('completed'),
    model: shown(MODEL),
    output: z.array(z.looseObject({ type: shown('message') })),
  })
  .openapi('Response')

export const SpeechRequest = z
  .looseObject({
    model: model.openapi({ example: 'local/echo-speech' }),
    input: z.string().openapi({ example: 'Hello' }),
    voice: anything.openapi({ description: 'A voice of the model.', example: 'alloy' }),
    response_format: z.enum(['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm']).optional(),
    speed: z.number().min(0.25).max(4).optional(),
    stream_format: z.enum(['audio', 'sse']).optional(),
    provider: Preferences.optional(),
  })
  .openapi('SpeechRequest', { example: speechExample })

const format = z.enum(['json', 'text', 'srt', 'vtt', 'verbose_json', 'diarized_json'])
export const TranscriptionRequest = z
  .looseObject({
    model: model.openapi({ example: 'local/echo-transcribe' }),
    input_audio: z.looseObject({
      data: z.string().openapi({ description: 'Base64-encoded audio.', example: 'UklGRiQAAABXQVZFZm10IA==' }),
      format: z.string().openapi({ example: 'wav' }),
    }),
    response_format: format.optional(),
    stream: z.boolean().optional(),
    provider: Preferences.optional(),
  })
  .openapi('TranscriptionRequest', { example: transcriptionExample })
export const TranscriptionForm = z
  .looseObject({
    model: model.openapi({ example: 'local/echo-transcribe' }),
    file: z.string().openapi({ type: 'string', format: 'binary', example: 'RIFF…' }),
    response_format: format.optional(),
    stream: z.enum(['true', 'false']).optional(),
  })
  .openapi('TranscriptionForm')
export const Transcription = z.looseObject({ text: shown('Hello.') }).openapi('Transcription')

export const VideoRequest = z
  .looseObject({
    model: model.openapi({ example: 'local/echo-video' }),
    prompt: z.string().openapi({ example: 'A ball that bounces' }),
    duration: anything
      .optional()
      .openapi({ description: 'Seconds, above 0 and up to 600. Also accepted as `seconds`.', example: 4 }),
    size: z.string().optional().openapi({ example: '1280x720' }),
    resolution: z.string().optional().openapi({ example: '720p' }),
    seed: z.number().int().optional(),
    provider: Preferences.optional(),
  })
  .openapi('VideoRequest', { example: videoExample })

export const VideoJob = z
  .object({
    id,
    object: z.literal('video'),
    status: z.enum(['pending', 'in_progress', 'completed', 'failed', 'cancelled', 'expired']),
    model: shown('local/echo-video'),
    created_at: seconds(1_795_000_000),
    expires_at: seconds(1_795_086_400),
    video: z
      .object({
        url: shown('https://api.example.com/ai/v1/videos/0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10/content'),
        duration: count(2).nullable().openapi({ description: 'Seconds; null if unknown.' }),
      })
      .nullable(),
    error: z.object({ code: shown('video_failed'), message: shown('The provider ended the job: failed') }).nullable(),
    usage: z.object({ seconds: count(2) }).nullable(),
  })
  .openapi('VideoJob')

const capability = z.boolean().nullable()
const price = (example: number | null) => z.number().nullable().openapi({ example })
export const Model = z
  .object({
    id: shown(MODEL),
    object: z.literal('model'),
    created: seconds(1_790_000_000).nullable(),
    owned_by: shown('local'),
    name: shown('Echo'),
    provider: shown('local').openapi({ description: 'The first provider in the route.' }),
    capabilities: z
      .object({ chat: capability, streaming: capability, tools: capability, vision: capability, json_mode: capability })
      .openapi({ description: 'null if unknown.' }),
    modalities: z.object({ input: z.array(shown('text')), output: z.array(shown('text')) }),
    contextWindow: count(128_000).nullable(),
    maxOutputTokens: count(4_096).nullable(),
    description: shown('Repeats what it is told.').nullable(),
    routingProviders: z.array(shown('local')),
    routingProviderDetails: z.array(z.object({ id: shown('local'), name: shown('Local'), supportsZdr: z.boolean() })),
    zdrProviders: z.array(shown('local')).openapi({ description: 'Providers that retain no data.' }),
    pricing: z
      .object({
        input: price(2.5),
        output: price(10),
        cacheRead: price(1.25),
        cacheWrite: price(null),
        request: price(0),
      })
      .nullable()
      .openapi({
        description: 'US dollars per million tokens and per request, at the first provider. null if unknown.',
      }),
  })
  .openapi('AiModel')
export const ModelList = z
  .object({
    object: z.literal('list'),
    data: z.array(Model),
    items: z.array(Model).openapi({ description: 'The same as `data`.' }),
    total: count(4),
  })
  .openapi('AiModelList')
