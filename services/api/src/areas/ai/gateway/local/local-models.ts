import type { Model, Provider } from '../providers/model.ts'

/** The platform itself, as a provider: it sends nothing anywhere and stores nothing. */
export const localProvider: Provider = {
  id: 'local',
  name: 'This platform',
  driver: 'local',
  baseUrl: undefined,
  operatorKey: undefined,
  zdr: true,
  fetchesUrls: false,
  streamUsage: 'include',
  responses: false,
  contentHosts: [],
  unpriced: [],
}

const nothing = { chat: false, streaming: false, tools: false, vision: false, json_mode: false }

const localModel = (
  id: string,
  name: string,
  description: string,
  more: Pick<Model, 'modalities' | 'capabilities' | 'contextWindow' | 'maxOutputTokens'>,
): Model => ({
  id,
  name,
  description: `${description} It is no language model: it is there to try out requests, streams and clients without a provider.`,
  created: 1_790_000_000,
  ownedBy: 'local',
  ...more,
  routes: [
    {
      provider: localProvider,
      upstreamModel: id,
      weight: 1,
      capParameter: 'max_completion_tokens',
      price: undefined,
      bounds: {},
    },
  ],
})

/** The models that are always available. They are deterministic, cost nothing and need no key. */
export const localModels: readonly Model[] = [
  localModel('local/echo', 'Echo', 'Repeats the last message of the user.', {
    modalities: { input: ['text'], output: ['text'] },
    capabilities: { chat: true, streaming: true, tools: true, vision: false, json_mode: true },
    contextWindow: 1_000_000,
    maxOutputTokens: 100_000,
  }),
  localModel('local/echo-speech', 'Echo speech', 'Makes a tone for each character of a text.', {
    modalities: { input: ['text'], output: ['audio'] },
    capabilities: { ...nothing, streaming: true },
    contextWindow: null,
    maxOutputTokens: null,
  }),
  localModel('local/echo-transcribe', 'Echo transcription', 'Says how long the audio is that it was sent.', {
    modalities: { input: ['audio'], output: ['text'] },
    capabilities: { ...nothing, streaming: true },
    contextWindow: null,
    maxOutputTokens: null,
  }),
  localModel('local/echo-video', 'Echo video', 'Makes a moving picture of two colours that take turns.', {
    modalities: { input: ['text'], output: ['video'] },
    capabilities: nothing,
    contextWindow: null,
    maxOutputTokens: null,
  }),
]
