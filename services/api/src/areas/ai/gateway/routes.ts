import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { pathId } from '../../../http/fields.ts'
import { upstreamEndpoint } from '../deps.ts'
import { createVideo } from './videos/create-video.ts'
import { infer } from './infer.ts'
import { getModel, listModels } from './models.ts'
import { inferenceHeaders, placeCall, placementHeaders } from './place-call.ts'
import { readChat, readResponses, readSpeech } from './requests/read-inference.ts'
import { readTranscription } from './requests/read-transcription.ts'
import * as shapes from './shapes.ts'
import { sendVideoContent } from './videos/video-content.ts'
import { reachVideoJob, shownVideoJob } from './videos/video-jobs.ts'

const tag = 'AI gateway'
const chat = 'network:ai_gateway:chat'
const eventStream = { schema: shapes.EventStream }
const failures = [400, 404, 413, 422] as const
const inferenceSpec = { tag, scope: chat, headers: inferenceHeaders, fails: failures } as const
const errors =
  'If the provider rejects the request, its status and message are passed on; if it fails, the status is 503.'

export const aiGatewayEndpoints = [
  upstreamEndpoint({
    ...inferenceSpec,
    operation: 'createChatCompletion',
    on: 'POST /ai/v1/chat/completions',
    spec: 'A §4 AI gateway',
    summary: 'Create a chat completion',
    description: `One completion, or with \`stream\` server-sent chunks that end with \`[DONE]\`. Fields that are not documented here are passed to the provider unchanged. A failure after the first byte is an event with \`error\`, and no \`[DONE]\` follows. ${errors}`,
    body: { 'application/json': { schema: shapes.ChatRequest } },
    returns: {
      status: 200,
      content: { 'application/json': { schema: shapes.ChatCompletion }, 'text/event-stream': eventStream },
    },
    answer: (on) => infer(on, 'chat.completions', readChat),
  }),
  upstreamEndpoint({
    ...inferenceSpec,
    operation: 'createResponse',
    on: 'POST /ai/v1/responses',
    spec: 'A §4 AI gateway, D89',
    summary: 'Create a response',
    description: `One response, or with \`stream\` its typed events. Providers that only support chat completions are called that way; the response is then not stored, and \`store\` is false. \`previous_response_id\`, and input items that are only an id, must come from a response to the same organization and application. ${errors}`,
    body: { 'application/json': { schema: shapes.ResponsesRequest } },
    returns: {
      status: 200,
      content: { 'application/json': { schema: shapes.Response }, 'text/event-stream': eventStream },
    },
    answer: (on) => infer(on, 'responses', readResponses),
  }),
  upstreamEndpoint({
    ...inferenceSpec,
    operation: 'createSpeech',
    on: 'POST /ai/v1/audio/speech',
    spec: 'A §4 AI gateway',
    summary: 'Create speech',
    description: `Audio, or with \`stream_format: "sse"\` events that carry it in pieces. ${errors}`,
    body: { 'application/json': { schema: shapes.SpeechRequest } },
    returns: { status: 200, content: { 'audio/*': { schema: shapes.Bytes }, 'text/event-stream': eventStream } },
    answer: (on) => infer(on, 'audio.speech', readSpeech),
  }),
  upstreamEndpoint({
    ...inferenceSpec,
    operation: 'createTranscription',
    on: 'POST /ai/v1/audio/transcriptions',
    spec: 'A §4 AI gateway, D23',
    summary: 'Create a transcription',
    description: `Takes a form with a \`file\` (32 MiB in all), or JSON with the audio in base64 (36 MiB). Answers in the \`response_format\`, or with \`stream\` as events. ${errors}`,
    body: {
      'application/json': { schema: shapes.TranscriptionRequest },
      'multipart/form-data': { schema: shapes.TranscriptionForm },
    },
    returns: {
      status: 200,
      content: {
        'application/json': { schema: shapes.Transcription },
        'text/plain': { schema: shapes.PlainText },
        'text/event-stream': eventStream,
      },
    },
    answer: (on) => infer(on, 'audio.transcriptions', readTranscription),
  }),
  endpoint({
    operation: 'listVideoModels',
    on: 'GET /ai/v1/videos/models',
    spec: 'A §4 AI gateway',
    tag,
    summary: 'List video models',
    description: 'Models available to the organization of the call that make videos.',
    actor: 'any',
    scope: 'network:ai_gateway:models',
    headers: placementHeaders,
    reach: (call) => placeCall(call, call.headers),
    returns: [200, shapes.ModelList],
    fails: [400, 404],
    handle: ({ deps, target }) => listModels(deps, target, 'video'),
  }),
  upstreamEndpoint({
    ...inferenceSpec,
    operation: 'createVideo',
    on: 'POST /ai/v1/videos',
    spec: 'A §4 AI gateway, D25',
    summary: 'Create a video',
    description: `Starts a job. Poll the job until its status is \`completed\`; \`video.url\` then returns the video to anyone who may read the job. Job and video expire after 24 hours; the expired job can be read for another day. ${errors}`,
    headers: z.object({ ...inferenceHeaders.shape, 'Idempotency-Key': shapes.IdempotencyKey }),
    body: { 'application/json': { schema: shapes.VideoRequest } },
    returns: {
      status: 202,
      content: { 'application/json': { schema: shapes.VideoJob } },
      headers: {
        'Idempotency-Replayed': {
          description: '`true` if an earlier request with the same key started the job.',
          schema: { type: 'string' },
        },
      },
    },
    fails: [...failures, 409],
    answer: (on) => createVideo(on),
  }),
  endpoint({
    operation: 'getVideo',
    on: 'GET /ai/v1/videos/{id}',
    spec: 'D89, ai-gateway.md',
    tag,
    summary: 'Get a video job',
    description:
      'A job of the organization and application of the call. The platform polls the provider every few seconds.',
    actor: 'any',
    scope: chat,
    params: { id: pathId('Video') },
    headers: placementHeaders,
    reach: async (call) => reachVideoJob(call.deps, await placeCall(call, call.headers), call.params.id),
    returns: [200, shapes.VideoJob],
    fails: [400],
    handle: ({ deps, target }) => shownVideoJob(deps, target),
  }),
  upstreamEndpoint({
    operation: 'getVideoContent',
    on: 'GET /ai/v1/videos/{id}/content',
    spec: 'D89, ai-gateway.md',
    tag,
    scope: chat,
    summary: 'Get the content of a video',
    description: 'The bytes of a `completed` video. 409 before that, and once it has expired.',
    params: { id: pathId('Video') },
    headers: placementHeaders,
    returns: { status: 200, content: { 'video/*': { schema: shapes.Bytes } } },
    fails: [400, 404, 409, 422],
    answer: ({ params, ...on }) => sendVideoContent(on, params.id),
  }),
  endpoint({
    operation: 'listModels',
    on: 'GET /ai/v1/models',
    spec: 'A §4 AI gateway',
    tag,
    summary: 'List models',
    description:
      'Models available to the organization of the call: those that the operator or the organization has a provider key for, and always `local/*`.',
    actor: 'any',
    scope: 'network:ai_gateway:models',
    headers: placementHeaders,
    reach: (call) => placeCall(call, call.headers),
    returns: [200, shapes.ModelList],
    fails: [400, 404],
    handle: ({ deps, target }) => listModels(deps, target, 'all'),
  }),
  endpoint({
    operation: 'getModel',
    on: 'GET /ai/v1/models/{id}',
    also: ['/ai/v1/models/:id{.+}'],
    spec: 'A §4 AI gateway',
    tag,
    summary: 'Get a model',
    description: 'Slashes in the id may be sent as they are or as %2F.',
    actor: 'any',
    scope: 'network:ai_gateway:models',
    params: {
      id: {
        schema: z.string().openapi({ description: 'The id of the model.', example: 'local/echo' }),
        resource: 'Model',
      },
    },
    headers: placementHeaders,
    reach: (call) => placeCall(call, call.headers),
    returns: [200, shapes.Model],
    fails: [400],
    handle: ({ deps, target, params }) => getModel(deps, target, params.id),
  }),
]
