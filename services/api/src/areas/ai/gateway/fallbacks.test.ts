import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type AiAnswer, type AiAsk, aiAsks, askAi, openAiRequest, usageEventOf } from '../../../../test/ai-asks.ts'
import { setBudgets } from '../../../../test/ai-budgets.ts'
import { aiKeys, chatOf, mockProvider, newEntitledOwner, OPERATOR_KEY } from '../../../../test/ai-providers.ts'
import { type HostileProvider, startHostileProvider } from '../../../../test/hostile-provider.ts'
import { hurryAi } from '../../../../test/hurry-ai.ts'
import { type Owner, unique } from '../../../../test/scenario.ts'

/** Plays one answer. */
type Play = (outgoing: ServerResponse, path: string) => unknown

const EVENTS = 'text/event-stream'
const JSON_TYPE = 'application/json'
const data = (...values: unknown[]) => values.map((value) => `data: ${JSON.stringify(value)}\n\n`).join('')
/** Answers 200 with a text. */
const say = (text: string, type: string | undefined): Play => {
  const headers = type === undefined ? {} : { 'content-type': type }
  return (outgoing) => outgoing.writeHead(200, headers).end(text)
}
/** Answers 200 with events, and breaks the connection off once they are sent. */
const cutBehind = (text: string): Play => {
  return (outgoing) => outgoing.writeHead(200, { 'content-type': EVENTS }).write(text, () => outgoing.destroy())
}
const refuse = (status: number, document: unknown): Play => {
  return (outgoing) => outgoing.writeHead(status, { 'content-type': JSON_TYPE }).end(JSON.stringify(document))
}

const SAID = 'Bonjour'
const chunk = (delta: object, reason: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason: reason }],
})
const message = { role: 'assistant', content: [{ type: 'text', text: SAID }], stop_reason: 'end_turn' }
const anthropicUsage = { input_tokens: 11, output_tokens: 7 }
const started = { type: 'message_start', message: { id: 'm', type: 'message', usage: { input_tokens: 11 } } }
const stopped = { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: anthropicUsage }
const anthropicText = [
  started,
  { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: SAID } },
]
const response = (status: string, output: unknown[]) => ({ id: 'resp_1', object: 'response', status, output })

/** What a provider answers well, by the path and whether it streams: a document, and events with what announces them. */
const good: Record<string, { document: string; prelude: string; events: string }> = {
  '/chat/completions': {
    document: JSON.stringify({ choices: [{ index: 0, message: { content: SAID }, finish_reason: 'stop' }] }),
    prelude: data(chunk({ role: 'assistant', content: '' })),
    events: `${data(chunk({ content: SAID }), chunk({}, 'stop'))}data: [DONE]\n\n`,
  },
  '/responses': {
    document: JSON.stringify(
      response('completed', [{ type: 'message', content: [{ type: 'output_text', text: SAID }] }]),
    ),
    prelude: data({ type: 'response.created', response: response('in_progress', []) }),
    events: data(
      { type: 'response.output_text.delta', delta: SAID },
      { type: 'response.completed', response: response('completed', []) },
    ),
  },
  '/messages': {
    document: JSON.stringify({ id: 'm', type: 'message', ...message, usage: anthropicUsage }),
    prelude: data(started),
    events: data(...anthropicText.slice(1), stopped, { type: 'message_stop' }),
  },
  '/audio/speech': {
    document: SAID,
    prelude: '',
    events: data({ type: 'speech.audio.delta', audio: SAID }, { type: 'speech.audio.done' }),
  },
  '/audio/transcriptions': {
    document: JSON.stringify({ text: SAID }),
    prelude: '',
    events: data({ type: 'transcript.text.delta', delta: SAID }, { type: 'transcript.text.done', text: SAID }),
  },
}

const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
const limited = { error: { code: 429, message: 'Slow down' } }

/** Answers under 200 that are none: of any form, and of streams alone, where `prelude` announces one. */
const documents: Record<string, Play> = {
  'an error document': say(JSON.stringify({ error: { message: 'Away', code: 502 } }), JSON_TYPE),
  'an error document of Anthropic': say(JSON.stringify(overloaded), JSON_TYPE),
  'an HTML page': say('<!doctype html><p>Back soon', 'text/html'),
  nothing: say('', undefined),
}
const streams = (prelude: string): Record<string, Play> => ({
  'a page in place of events': say('<!doctype html><p>Back soon', EVENTS),
  'an error as first event': say(data(limited), EVENTS),
  'an error of Anthropic as first event': say(`event: error\n${data(overloaded)}`, EVENTS),
  'no event': say('', EVENTS),
  'comments alone': say(': waiting\n\n: waiting\n\n', EVENTS),
  'an error behind the beginning': say(prelude + data(limited), EVENTS),
  'a cut behind the beginning': cutBehind(`: waiting\n\n${prelude}`),
  'an end behind the beginning': say(prelude, EVENTS),
})
const wholeInPlaceOfEvents = (path: string): Play => say(good[path]?.document ?? '', JSON_TYPE)

let bad: HostileProvider
let platform: TestPlatform
let owner: Owner
const plays = new Map<string, Play>()
const asked: string[] = []
const lines: string[] = []

/** The model that a request names, in JSON or a form. */
const modelIn = (body: string) =>
  /"model":"([^"]*)"|name="model"\r\n\r\n([^\r]*)/.exec(body)?.slice(1).find(Boolean) ?? ''

async function answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  const body = (await buffer(incoming)).toString()
  const model = modelIn(body)
  const path = incoming.url?.slice('/v1'.length) ?? ''
  asked.push(model)
  const isStream = /"stream":true|"stream_format":"sse"|name="stream"\r\n\r\ntrue/.test(body)
  const { document, prelude, events } = good[path]!
  const type = path === '/audio/speech' ? 'audio/mpeg' : JSON_TYPE
  const play = plays.get(model) ?? (isStream ? say(prelude + events, EVENTS) : say(document, type))
  play(outgoing, path)
}

/** A price of a dollar for a million tokens. */
const price = { input_mtok: 1, output_mtok: 1 }
const MODELS = 300
beforeAll(async () => {
  bad = await startHostileProvider()
  bad.play((incoming, outgoing) => void answer(incoming, outgoing))
  // A provider that plays what a test wants for a model, and another that answers well.
  const drivers = {
    compat: { responses: true },
    plain: { responses: false },
    unknown: {},
    anthropic: { driver: 'anthropic' },
  }
  const kinds = Object.keys(drivers) as (keyof typeof drivers)[]
  const names = Array.from({ length: MODELS }, (_, n) => `m${n}`)
  platform = await startPlatform({
    aiProviders: {
      providers: kinds.flatMap((kind) => [
        mockProvider(bad, kind, drivers[kind]),
        mockProvider(bad, `good-${kind}`, drivers[kind]),
      ]),
      models: names.flatMap((name) =>
        kinds.flatMap((kind) => {
          const first = { provider: kind, upstreamModel: name, price }
          const second = { provider: `good-${kind}`, upstreamModel: 'good', weight: 0, price }
          return [
            { id: `${kind}/${name}`, routes: [first] },
            { id: `both-${kind}/${name}`, routes: [first, second] },
          ]
        }),
      ),
    },
    env: aiKeys,
    aiTimings: { retryMs: 1 },
    onLogLine: (line) => void lines.push(line),
  })
  owner = await newEntitledOwner(platform)
})
afterAll(async () => {
  await platform.close()
  await bad.close()
})

let named = 0
/** Takes a model that no other test uses, whose provider plays this. */
function modelPlaying(play: Play): string {
  const name = `m${named++}`
  plays.set(name, play)
  return name
}
const timesAsked = (model: string) => asked.filter((each) => each === model).length
const ask = ({ provider, path, body }: AiAsk, model: string, of: 'alone' | 'both', by = owner) =>
  askAi(platform, by.token, path, { ...body, model: `${of === 'both' ? 'both-' : ''}${provider}/${model}` })
const errorOf = ({ body }: AiAnswer) => (body as { error: { code: string; message: string } }).error
const attemptsOf = async ({ headers }: AiAnswer) =>
  (await usageEventOf(platform, headers['x-request-id'])).providerAttempts

const all = Object.entries(aiAsks) as [string, AiAsk][]
const upstreamPath = ({ provider, path }: AiAsk) =>
  provider === 'anthropic' ? '/messages' : provider === 'plain' ? '/chat/completions' : path
/** Everything that is no answer to a request. */
const noAnswers = (options: AiAsk): [string, Play][] => {
  const path = upstreamPath(options)
  const whole = wholeInPlaceOfEvents(path)
  const ofStreams = { ...streams(good[path]?.prelude ?? ''), 'JSON in place of events': whole }
  return Object.entries(options.answer === 'events' ? { ...documents, ...ofStreams } : documents)
}

describe('an answer under 200 that is none leads to the next route', () => {
  test.each(all)('%s', async (_, options) => {
    const { isTranslated, answer: kind } = options
    const { document, prelude, events } = good[options.path]!
    const expected = kind === 'events' ? prelude + events : document
    const told = await Promise.all(
      noAnswers(options).map(async ([name, play]) => {
        const model = modelPlaying(play)
        const { status, bytes } = await ask(options, model, 'both')
        return [name, status, isTranslated ? bytes.includes(SAID) : bytes.toString()]
      }),
    )
    expect(told).toEqual(noAnswers(options).map(([name]) => [name, 200, isTranslated ? true : expected]))
  })
})

describe('without another route', () => {
  const chat = aiAsks['chat stream']
  const role = good['/chat/completions']!.prelude
  test.each([
    ['a code in words', say(data(limited), EVENTS), 429, 'upstream_rate_limited', 3],
    ['a type in words', say(JSON.stringify(overloaded), JSON_TYPE), 503, 'upstream_error', 3],
    ['words without a status', say('{"error":{"message":"Away"}}', JSON_TYPE), 503, 'upstream_error', 3],
    ['a wrong key in words', say(data({ error: { code: '401' } }), EVENTS), 503, 'provider_unavailable', 1],
    ['a wrong request in words', say(data({ error: { status: 400 } }), EVENTS), 400, 'upstream_refused', 1],
    ['words of 413', say('{"error":{"type":"request_too_large"}}', JSON_TYPE), 413, 'request_too_large', 1],
    ['words behind the beginning', say(role + data(limited), EVENTS), 429, 'upstream_rate_limited', 3],
    ['an HTML page', say('<html>', 'text/html'), 503, 'upstream_error', 1],
    ['nothing', say('', EVENTS), 503, 'upstream_error', 1],
    ['a cut behind the beginning', cutBehind(role), 503, 'upstream_error', 1],
  ] as const)('%s is answered as its status is', async (_, play, status, code, times) => {
    const model = modelPlaying(play)
    const told = await ask(chat, model, 'alone')
    expect([told.status, errorOf(told).code, timesAsked(model)]).toEqual([status, code, times])
  })

  test.each([
    [501, 1],
    [505, 1],
    [400, 1],
    [404, 1],
    [413, 1],
    [422, 1],
  ])('%s is asked for once', async (status, times) => {
    const model = modelPlaying(refuse(status, { error: { message: 'No' } }))
    await ask(chat, model, 'alone')
    expect(timesAsked(model)).toBe(times)
  })
})

test('a provider whose answer has begun is asked once, and no other is', async () => {
  const content = data(chunk({ content: SAID }))
  const told = await Promise.all(
    [say(content + data(limited), EVENTS), cutBehind(content), say(content, EVENTS)].map(async (play) => {
      const model = modelPlaying(play)
      const { status, bytes, headers } = await ask(aiAsks['chat stream'], model, 'both')
      const text = bytes.toString()
      expect([status, text.startsWith(content), text.includes('"error":'), text.includes('[DONE]')]).toEqual([
        200,
        true,
        true,
        false,
      ])
      const event = await usageEventOf(platform, headers['x-request-id'])
      expect(event).toMatchObject({ status: 'error', statusCode: 200 })
      return [timesAsked(model), event.providerAttempts]
    }),
  )
  expect(told).toEqual([
    [1, [{ provider: 'compat', statusCode: 200, error: 'upstream_error' }]],
    [1, [{ provider: 'compat', statusCode: 200, error: 'connection_lost' }]],
    [1, [{ provider: 'compat', statusCode: 200, error: 'bad_answer' }]],
  ])
})

describe.each([
  ['cost', { maxCostMicros: 1_000_000 }],
  ['tokens', { maxTokens: 1_000_000 }],
  ['requests', { maxRequests: 1_000 }],
])('under a budget of %s', (_, maximum) => {
  test('a failure in words goes on to the next route, and a lost answer does not', async () => {
    const payer = await newEntitledOwner(platform)
    await setBudgets(platform, payer, [maximum])
    // OpenRouter tells of a failure in a chunk that is also an end.
    for (const words of [limited, { ...chunk({ content: '' }, 'error'), ...limited }]) {
      const first = modelPlaying(say(data(words), EVENTS))
      expect((await ask(aiAsks['chat stream'], first, 'both', payer)).status).toBe(200)
      expect(timesAsked(first)).toBe(3)
    }
    for (const play of [say('<html>', 'text/html'), cutBehind(good['/chat/completions']!.prelude)]) {
      const lost = modelPlaying(play)
      const { status, headers } = await ask(aiAsks['chat stream'], lost, 'both', payer)
      expect([status, timesAsked(lost)]).toEqual([503, 1])
      const event = await usageEventOf(platform, headers['x-request-id'])
      expect(event).toMatchObject({ status: 'error', usageSource: 'estimated', countedRequests: 1 })
      expect(event.providerAttempts).toHaveLength(1)
    }
  })
})

describe('a provider that is silent', () => {
  const hanging = () => {
    const reached = Promise.withResolvers<ServerResponse>()
    return { model: modelPlaying((outgoing) => reached.resolve(outgoing)), reached: reached.promise }
  }
  const open = (model: string, of: string) =>
    openAiRequest(platform, owner.token, '/chat/completions', chatOf(`${of}compat/${model}`, { stream: true }))

  test('a client is pinged while the first provider is silent, and the next route answers in the same stream', async () => {
    await hurryAi(platform, { pingMs: 20 }, async () => {
      const { model, reached } = hanging()
      const call = open(model, 'both-')
      const held = await reached
      await call.until((text) => text.includes(': ping'))
      const before = timesAsked('good')
      say('<html>', 'text/html')(held, '')
      const { status, bytes } = await call.answer
      const { prelude, events } = good['/chat/completions']!
      expect([status, bytes.toString().replaceAll(': ping\n\n', '')]).toEqual([200, prelude + events])
      expect(timesAsked('good')).toBe(before + 1)
    })
  })

  test('a provider that fails after pings ends the stream with an error event where there is no other route', async () => {
    await hurryAi(platform, { pingMs: 20 }, async () => {
      const { model, reached } = hanging()
      const call = open(model, '')
      const held = await reached
      await call.until((text) => text.includes(': ping'))
      refuse(400, { error: { message: 'No such tool' } })(held, '')
      const { status, isCut, bytes, headers } = await call.answer
      const [event, ...others] = bytes.toString().replaceAll(': ping\n\n', '').split('\n\n').filter(Boolean)
      expect([status, isCut, others]).toEqual([200, false, []])
      expect(JSON.parse(event?.slice('data: '.length) ?? '')).toEqual({
        error: { type: 'invalid_request_error', code: 'upstream_refused', message: 'No such tool', param: null },
      })
      expect(await usageEventOf(platform, headers['x-request-id'])).toMatchObject({
        status: 'error',
        statusCode: 200,
        errorCode: 'upstream_refused',
        usageSource: 'none',
        providerAttempts: [{ provider: 'compat', error: 'upstream_refused', statusCode: 400 }],
      })
    })
  })

  test('no other attempt begins for a client that leaves while the provider is silent', async () => {
    await hurryAi(platform, { pingMs: 20 }, async () => {
      const { model, reached } = hanging()
      const call = open(model, 'both-')
      const held = await reached
      await call.until((text) => text.includes(': ping'))
      const closed = new Promise<void>((resolve) => void held.once('close', resolve))
      const before = timesAsked('good')
      call.leave()
      await closed
      const { headers } = await call.answer
      expect(await usageEventOf(platform, headers['x-request-id'])).toMatchObject({
        status: 'cancelled',
        statusCode: 499,
        providerAttempts: [{ provider: 'compat' }],
      })
      expect([timesAsked(model), timesAsked('good')]).toEqual([1, before])
    })
  })
})

test('the record of each attempt tells the provider’s own status, and what came without one', async () => {
  const plays = [
    refuse(401, { error: { message: 'Who?' } }),
    refuse(529, overloaded),
    (outgoing: ServerResponse) => outgoing.destroy(),
    say('<html>', 'text/html'),
    say(JSON.stringify(overloaded), JSON_TYPE),
  ]
  const attempts = await Promise.all(
    plays.map(async (play) => (await attemptsOf(await ask(aiAsks.chat, modelPlaying(play), 'alone')))[0]),
  )
  expect(attempts).toEqual([
    { provider: 'compat', error: 'provider_unavailable', statusCode: 401 },
    { provider: 'compat', error: 'upstream_error', statusCode: 529 },
    { provider: 'compat', error: 'connection_lost' },
    { provider: 'compat', error: 'bad_answer', statusCode: 200 },
    { provider: 'compat', error: 'upstream_error', statusCode: 529 },
  ])
})

describe('the provider’s reason', () => {
  const reason = `reason${unique()}`
  const shapes: [string, unknown][] = [
    ['{ error: { message } }', { error: { message: reason } }],
    ['[{ error: { message } }]', [{ error: { message: reason } }]],
    ['{ error }', { error: reason }],
    ['{ detail } of a text', { detail: reason }],
    ['{ detail } of a list', { detail: [{ loc: ['body', 'messages', 0, 'role'], msg: reason, type: 'x' }] }],
    ['{ errors }', { errors: [{ message: reason }] }],
    ['two errors in one', [{ error: { message: reason } }, { error: { message: 'Another' } }]],
  ]
  test.each(shapes)('reaches the caller from %s, and no log', async (_, shape) => {
    const content = data(chunk({ content: SAID }))
    const answers = await Promise.all(
      [
        refuse(400, shape),
        refuse(500, shape),
        say(JSON.stringify(shape), JSON_TYPE),
        say(data(shape), EVENTS),
        say(content + data(shape), EVENTS),
      ].map((play) => ask(aiAsks['chat stream'], modelPlaying(play), 'alone')),
    )
    expect(answers.map(({ status }) => status)).toEqual([400, 503, 503, 503, 200])
    for (const { bytes } of answers) expect(bytes.toString()).toContain(reason)
    expect(errorOf(answers[0]!).message).toMatch(/^(messages\[0\]\.role: )?reason/)
    expect(lines.join('')).not.toContain(reason)
  })

  test('the gateway cuts a reason at a kibibyte, and leaves out one that quotes the key', async () => {
    const long = { error: { message: 'x'.repeat(5_000) } }
    const quoting = { error: { message: `Bad key ${OPERATOR_KEY.slice(3, 12)}` } }
    const content = data(chunk({ content: SAID }))
    for (const [shape, expected] of [
      [long, /x{900}…/],
      [quoting, /^(?!.*Bad key)/s],
    ] as const)
      for (const play of [
        refuse(400, shape),
        refuse(500, shape),
        say(data(shape), EVENTS),
        say(content + data(shape), EVENTS),
      ]) {
        const { bytes } = await ask(aiAsks['chat stream'], modelPlaying(play), 'alone')
        const error = bytes.toString().slice(bytes.indexOf('"error"'))
        expect(error).toMatch(expected)
        expect(Buffer.byteLength(error)).toBeLessThan(1_250)
      }
  })

  test('the words about a limit reach the owner of the key alone, and a lack of credit is said', async () => {
    const own = await newEntitledOwner(platform)
    const path = `/organizations/${own.organizationId}/ai-gateway/provider-keys/compat`
    const plays = [refuse(429, limited), refuse(402, limited)]
    const messages = async () => {
      const answers = await Promise.all(plays.map((play) => ask(aiAsks.chat, modelPlaying(play), 'alone', own)))
      expect(answers.map(({ headers }) => headers['x-should-retry'])).toEqual(['false', 'false'])
      return answers.map((each) => errorOf(each).message)
    }
    expect(await messages()).toEqual([
      'The provider compat takes no more requests for now',
      'The operator’s key of the provider compat is out of credit',
    ])
    await platform.call(own.token, `PUT ${path}`, { key: 'sk-own-0123456789' })
    expect(await messages()).toEqual([
      'The provider compat takes no more requests for now: Slow down',
      'The organization’s own key of the provider compat is out of credit',
    ])
  })
})

describe('a stream', () => {
  const { prelude, events } = good['/chat/completions']!
  test.each(['text/plain', undefined, 'application/json', 'application/octet-stream'])(
    'of the type %s is known by its first bytes',
    async (type) => {
      const { status, bytes, headers } = await ask(
        aiAsks['chat stream'],
        modelPlaying(say(`\n: hello\n\n${prelude}${events}`, type)),
        'alone',
      )
      expect([status, bytes.toString(), headers['content-type']]).toEqual([
        200,
        prelude + events,
        'text/event-stream; charset=utf-8',
      ])
    },
  )

  test('a stream without a type that comes byte by byte is known as one', async () => {
    const play: Play = (outgoing) => {
      outgoing.writeHead(200)
      for (const each of prelude + events) outgoing.write(each)
      outgoing.end()
    }
    expect((await ask(aiAsks['chat stream'], modelPlaying(play), 'alone')).bytes.toString()).toBe(prelude + events)
  })

  test('a stream may end with an event without a blank line, whose usage counts', async () => {
    const usage = { choices: [], usage: { prompt_tokens: 3, completion_tokens: 5 } }
    const text = prelude + data(chunk({ content: SAID }), chunk({}, 'stop'), usage)
    for (const end of [1, 2]) {
      const options = {
        ...aiAsks['chat stream'],
        body: { ...aiAsks['chat stream'].body, stream_options: { include_usage: true } },
      }
      const { bytes, headers } = await ask(options, modelPlaying(say(text.slice(0, -end), EVENTS)), 'alone')
      expect(bytes.toString().replaceAll(/\n+/g, '\n')).toBe(`${text}data: [DONE]\n\n`.replaceAll(/\n+/g, '\n'))
      expect(await usageEventOf(platform, headers['x-request-id'])).toMatchObject({
        status: 'success',
        inputTokens: 3,
        outputTokens: 5,
        usageSource: 'provider',
      })
    }
  })

  test('a stream of Anthropic that ends before message_stop keeps the usage that was told', async () => {
    const text = data(...anthropicText, stopped)
    const asks = [aiAsks['chat stream of Anthropic'], aiAsks['response stream of Anthropic']]
    const told = { inputTokens: 11, outputTokens: 7, usageSource: 'provider' }
    for (const options of asks) {
      const ended = await ask(options, modelPlaying(say(text, EVENTS)), 'alone')
      expect(await usageEventOf(platform, ended.headers['x-request-id'])).toMatchObject({ status: 'success', ...told })
      const cut = await ask(options, modelPlaying(cutBehind(text)), 'alone')
      expect(await usageEventOf(platform, cut.headers['x-request-id'])).toMatchObject({ status: 'error', ...told })
    }
  })
})

describe('bad answers', () => {
  const chat = aiAsks['chat stream']

  test.each(['"rate"', 'null', '-1', '1e9', '200', '429.5', '{}'])('a code of %s names no status', async (code) => {
    const model = modelPlaying(say(`{"error":{"message":"x","code":${code}}}`, JSON_TYPE))
    const told = await ask(chat, model, 'alone')
    expect([told.status, errorOf(told).code, timesAsked(model)]).toEqual([503, 'upstream_error', 3])
  })

  test('an error nested 500 deep is told of, and one that is endless is lost', async () => {
    const deep = `{"error":${'{"error":'.repeat(500)}1${'}'.repeat(500)},"message":"x"}`
    const endless: Play = (outgoing) => {
      outgoing.writeHead(200, { 'content-type': JSON_TYPE }).write('{"error":{"message":"')
      const more = () => {
        while (!outgoing.destroyed && outgoing.write('x'.repeat(65_536)));
      }
      outgoing.on('drain', more)
      more()
    }
    for (const play of [say(deep, JSON_TYPE), endless]) {
      const { status } = await ask(chat, modelPlaying(play), 'both')
      expect(status).toBe(200)
    }
  })

  test.each([
    ['comments', ': waiting\n\n'],
    ['roles', good['/chat/completions']!.prelude],
    ['blank lines', '\n\n\n\n'],
  ])('an endless beginning of %s is lost, and the provider is left', async (_, piece) => {
    const closed = Promise.withResolvers<void>()
    const play: Play = (outgoing) => {
      outgoing.once('close', closed.resolve)
      outgoing.writeHead(200, { 'content-type': EVENTS })
      const more = () => {
        while (!outgoing.destroyed && outgoing.write(piece.repeat(100)));
      }
      outgoing.on('drain', more)
      more()
    }
    const { status, bytes } = await ask(chat, modelPlaying(play), 'both')
    expect([status, bytes.includes(SAID)]).toEqual([200, true])
    await closed.promise
  })

  test('a beginning with a large picture in its first event with content is an answer', async () => {
    const picture = 'x'.repeat(300_000)
    const text = data(chunk({ role: 'assistant', images: [picture] }), chunk({}, 'stop'))
    const { status, bytes } = await ask(chat, modelPlaying(say(`${text}data: [DONE]\n\n`, EVENTS)), 'alone')
    expect([status, bytes.toString()]).toEqual([200, `${text}data: [DONE]\n\n`])
  })

  test('a failed response without output is an error, and what it used counts', async () => {
    const failed = { ...response('failed', []), error: { code: 'server_error', message: 'Broken' } }
    const free = modelPlaying(say(JSON.stringify(failed), JSON_TYPE))
    expect((await ask(aiAsks.response, free, 'both')).status).toBe(200)
    const payer = await newEntitledOwner(platform)
    await setBudgets(platform, payer, [{ maxCostMicros: 1_000_000 }])
    const used = { ...failed, usage: { input_tokens: 5, output_tokens: 1 } }
    const lost = modelPlaying(say(JSON.stringify(used), JSON_TYPE))
    expect([(await ask(aiAsks.response, lost, 'both', payer)).status, timesAsked(lost)]).toEqual([503, 1])
  })
})

describe('what a provider has used', () => {
  const used = { prompt_tokens: 500, completion_tokens: 100 }
  const told = { inputTokens: 500, outputTokens: 100, usageSource: 'provider', countedTokens: 600 }
  const failedResponse = { ...response('failed', []), usage: { input_tokens: 500, output_tokens: 100 } }
  const streamOf = (name: 'chat stream' | 'response stream', more: object = {}): AiAsk => {
    return { ...aiAsks[name], body: { ...aiAsks[name].body, ...more } }
  }
  const failing = { ...limited, usage: used }
  test.each<[string, AiAsk, string]>([
    ['usage, then an error', streamOf('chat stream'), data({ choices: [], usage: used }, limited)],
    [
      'usage that was asked for, then an error',
      streamOf('chat stream', { stream_options: { include_usage: true } }),
      data({ choices: [], usage: used }, limited),
    ],
    ['an error with usage', streamOf('chat stream'), data(failing)],
    ['an error with usage and content', streamOf('chat stream'), data({ ...chunk({ content: SAID }), ...failing })],
    [
      'a failed response with usage',
      streamOf('response stream'),
      data({ type: 'response.failed', response: failedResponse }),
    ],
  ])(
    'usage that a failure tells counts, and no second request follows it under a budget: %s',
    async (name, options, text) => {
      const payer = await newEntitledOwner(platform)
      await setBudgets(platform, payer, [{ maxCostMicros: 1_000_000 }])
      const model = modelPlaying(say(text, EVENTS))
      const { status, headers } = await ask(options, model, 'both', payer)
      expect([status, timesAsked(model)]).toEqual([name.includes('response') ? 503 : 429, 1])
      const event = await usageEventOf(platform, headers['x-request-id'])
      expect(event.countedTokens).toBeGreaterThanOrEqual(600)
      if (!name.includes(', then')) expect(event).toMatchObject(told)
    },
  )
})

describe('an answer that looks like a failure', () => {
  test.each(['""', 'false', '0', '{}', '[]', 'null'])('a chunk whose error is %s is no failure', async (error) => {
    const text = data(chunk({ content: SAID }), chunk({}, 'stop')).replaceAll(
      '{"choices"',
      `{"error":${error},"choices"`,
    )
    const { status, bytes } = await ask(aiAsks['chat stream'], modelPlaying(say(text, EVENTS)), 'alone')
    expect([status, bytes.toString()]).toEqual([200, `${text}data: [DONE]\n\n`])
  })

  test('a response that repeats a large request in its first events is an answer', async () => {
    const instructions = 'x'.repeat(40_000)
    const echo = (type: string) => data({ type, response: { ...response('in_progress', []), instructions } })
    const beginning = echo('response.created') + echo('response.in_progress')
    const play: Play = (outgoing) => {
      outgoing.writeHead(200, { 'content-type': EVENTS })
      outgoing.write(echo('response.created'), () =>
        outgoing.write(echo('response.in_progress'), () => outgoing.end(good['/responses']!.events)),
      )
    }
    const options = { ...aiAsks['response stream'], body: { ...aiAsks['response stream'].body, instructions } }
    const { status, bytes } = await ask(options, modelPlaying(play), 'alone')
    expect([status, bytes.toString()]).toEqual([200, beginning + good['/responses']!.events])
  })

  test('a chunk may have text in place of a delta, as older providers send it', async () => {
    const text = data({ choices: [{ index: 0, text: 'x'.repeat(70_000) }] }, { choices: [{ index: 0, text: SAID }] })
    const whole = `${text}${data({ choices: [{ index: 0, text: '', finish_reason: 'stop' }] })}data: [DONE]\n\n`
    const { status, bytes } = await ask(aiAsks['chat stream'], modelPlaying(say(whole, EVENTS)), 'alone')
    expect([status, bytes.toString()]).toEqual([200, whole])
  })
})

test('a large event and the error behind it both reach the client, though they came at once', async () => {
  const large = data(chunk({ content: 'x'.repeat(200_000) }))
  for (const text of [large + data(limited), data(chunk({ content: SAID })) + large + data({ error: 'Gone' })]) {
    const { status, isCut, bytes } = await ask(aiAsks['chat stream'], modelPlaying(say(text, EVENTS)), 'alone')
    expect([status, isCut]).toEqual([200, false])
    expect(bytes.toString()).toContain(large)
    expect(bytes.toString()).toMatch(/data: \{"error":\{[^\n]*\n\n$/)
  }
})

test('words about a limit in the middle of a stream reach the owner of the key alone, and words about a key nobody', async () => {
  const own = await newEntitledOwner(platform)
  const path = `/organizations/${own.organizationId}/ai-gateway/provider-keys/compat`
  await platform.call(own.token, `PUT ${path}`, { key: 'sk-own-0123456789' })
  const content = data(chunk({ content: SAID }))
  const words = async (error: object, by: Owner) => {
    const model = modelPlaying(say(content + data({ error: { message: 'Organization org-1', ...error } }), EVENTS))
    return (await ask(aiAsks['chat stream'], model, 'alone', by)).bytes.includes('org-1')
  }
  expect(await words({ code: 429 }, owner)).toBe(false)
  expect(await words({ code: 429 }, own)).toBe(true)
  expect(await words({ type: 'authentication_error' }, own)).toBe(false)
  expect(await words({ code: 500 }, owner)).toBe(true)
})

test('a refusal keeps its reason and code where they stand at its top', async () => {
  const document = { message: 'Too long', code: 'string_above_max_length' }
  const told = await ask(aiAsks.chat, modelPlaying(refuse(422, document)), 'alone')
  expect([told.status, errorOf(told)]).toMatchObject([422, document])
})

test('Retry-After beside an error in words is minded', async () => {
  const model = modelPlaying((outgoing) =>
    outgoing.writeHead(200, { 'content-type': JSON_TYPE, 'retry-after': '600' }).end(JSON.stringify(limited)),
  )
  expect((await ask(aiAsks.chat, model, 'both')).status).toBe(200)
  expect(timesAsked(model)).toBe(1)
})

test('a 404 in words says nothing of the path, so the provider is asked for responses again', async () => {
  const play = say('{"type":"error","error":{"type":"not_found_error","message":"No model"}}', JSON_TYPE)
  const model = modelPlaying(play)
  const asking = { model: `unknown/${model}`, input: 'x' }
  const statuses = [1, 2].map(() => askAi(platform, owner.token, '/responses', asking).then(({ status }) => status))
  expect(await Promise.all(statuses)).toEqual([404, 404])
  expect(timesAsked(model)).toBe(2)
  expect([...platform.api.ai.lacksResponses]).toEqual([])
})

test('a transcript in plain text is no page, whatever stands before its first tag', async () => {
  const options: AiAsk = {
    ...aiAsks.transcription,
    body: { ...aiAsks.transcription.body, response_format: 'text' },
  }
  for (const page of ['<!-- 502 --><html>', '\ufeff<!doctype html>', '<?xml version="1.0"?>\n<html>', '<p>Gone']) {
    const { bytes } = await ask(
      options,
      modelPlaying(say(page, page === '<p>Gone' ? 'text/html' : 'text/plain')),
      'both',
    )
    expect(bytes.toString()).toBe(good['/audio/transcriptions']!.document)
  }
  // The second would keep a pattern that backtracks busy for ever.
  for (const words of ['<laughs> {"a":1}', '<!---->'.repeat(150)]) {
    const { bytes } = await ask(options, modelPlaying(say(words, 'text/plain')), 'both')
    expect(bytes.toString()).toBe(words)
  }
})

test('an attempt that the deadline of the call ends is recorded with the status that had come', async () => {
  const role = good['/chat/completions']!.prelude
  const waits: Play = (outgoing) => outgoing.writeHead(200, { 'content-type': EVENTS }).write(role)
  const told = await hurryAi(platform, { totalMs: 2_000 }, () =>
    ask(aiAsks['chat stream'], modelPlaying(waits), 'both'),
  )
  expect([told.status, errorOf(told).code]).toEqual([503, 'upstream_timeout'])
  expect(await attemptsOf(told)).toEqual([{ provider: 'compat', error: 'timeout', statusCode: 200 }])
})

test('a provider that has begun after its pause is asked by others too, before its first event has content', async () => {
  const { prelude, events } = good['/chat/completions']!
  const began = [Promise.withResolvers<ServerResponse>(), Promise.withResolvers<ServerResponse>()]
  let count = 0
  const model = modelPlaying((outgoing) =>
    outgoing.writeHead(200, { 'content-type': EVENTS }).write(prelude, () => began[count++]?.resolve(outgoing)),
  )
  for (let n = 0; n < 5; n++) platform.api.ai.circuits.failed(`compat operator ${model}`, 'somebody', true)
  expect((await ask(aiAsks['chat stream'], model, 'alone')).status).toBe(503)
  const now = performance.now.bind(performance)
  const later = vi.spyOn(performance, 'now').mockImplementation(() => now() + 11_000)
  onTestFinished(() => later.mockRestore())
  const first = ask(aiAsks['chat stream'], model, 'alone')
  const held = [await began[0]?.promise]
  const second = ask(aiAsks['chat stream'], model, 'alone')
  held.push(await began[1]?.promise)
  for (const outgoing of held) outgoing?.end(events)
  expect([(await first).status, (await second).status]).toEqual([200, 200])
})
