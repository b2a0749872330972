import { type MockUpstream, startMockUpstream } from '@platform/testing/mock-ai-upstream'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { askAi } from '../../../../../test/ai-asks.ts'
import { aiKeys, mockModel, mockProvider, newEntitledOwner } from '../../../../../test/ai-providers.ts'
import { newOwner, type Owner, unique } from '../../../../../test/scenario.ts'

let mock: MockUpstream
let platform: TestPlatform
/** Of an organization served by the operator's keys. */
let owner: Owner
/** Of one with a key of its own. */
let keyed: Owner
beforeAll(async () => {
  mock = await startMockUpstream()
  const more = { responses: true }
  platform = await startPlatform({
    aiProviders: {
      providers: [
        mockProvider(mock, 'careful', more),
        mockProvider(mock, 'fetching', { ...more, fetchesUrls: true }),
        mockProvider(mock, 'anthropic', { driver: 'anthropic', fetchesUrls: true }),
      ],
      models: ['careful', 'fetching', 'anthropic'].map((provider) =>
        mockModel(`${provider}/model`, {}, provider, 'mock/plain'),
      ),
    },
    env: aiKeys,
  })
  ;[owner, keyed] = await Promise.all([newEntitledOwner(platform), newOwner(platform)])
  const path = `/organizations/${keyed.organizationId}/ai-gateway/provider-keys/careful`
  const { status } = await platform.call(keyed.token, `PUT ${path}`, { key: 'sk-own' })
  if (status !== 200) throw new Error(`The key was refused with ${status}`)
})
afterAll(async () => {
  await platform.close()
  await mock.close()
})

/** Sends a request with a unique text, and returns what the provider received, if anything. */
async function ask(path: string, body: object, { token } = owner) {
  const user = unique()
  const answer = await askAi(platform, token, path, { ...body, user })
  return { answer, sent: mock.ledger.find(({ raw }) => raw.includes(user)) }
}

const messages = (...content: object[]) => ({ messages: [{ role: 'user', content }] })
const input = (...content: object[]) => ({ input: [{ role: 'user', content }] })

describe('an address in a body', () => {
  const prompt = 'A ball'
  const places: [param: string, path: string, bodyWith: (url: string) => object][] = [
    [
      'messages[0].content[0].image_url.url',
      '/chat/completions',
      (url) => messages({ type: 'image_url', image_url: { url } }),
    ],
    [
      'messages[0].content[0].video_url.url',
      '/chat/completions',
      (url) => messages({ type: 'video_url', video_url: { url } }),
    ],
    ['input[0].content[0].image_url', '/responses', (url) => input({ type: 'input_image', image_url: url })],
    ['input[0].content[0].file_url', '/responses', (url) => input({ type: 'input_file', file_url: url })],
    [
      'input[0].output.image_url',
      '/responses',
      (url) => ({ input: [{ type: 'computer_call_output', call_id: 'c', output: { image_url: url } }] }),
    ],
    ['tools[0].server_url', '/responses', (url) => ({ input: 'x', tools: [{ type: 'mcp', server_url: url }] })],
    ['image', '/videos', (url) => ({ prompt, image: url })],
    ['image.url', '/videos', (url) => ({ prompt, image: { url } })],
    ['images[0]', '/videos', (url) => ({ prompt, images: [url] })],
    ['frame_images[0].image_url.url', '/videos', (url) => ({ prompt, frame_images: [{ image_url: { url } }] })],
    ['input_references[0].image_url.url', '/videos', (url) => ({ prompt, input_references: [{ image_url: { url } }] })],
    ['video.uri', '/videos', (url) => ({ prompt, video: { uri: url } })],
    ['image_url', '/videos', (url) => ({ prompt, image_url: url })],
    ['messages[0].content[0].image', '/chat/completions', (url) => messages({ type: 'image', image: url })],
    ['messages[0].content[0].audio', '/chat/completions', (url) => messages({ type: 'audio', audio: url })],
    ['messages[0].content[0].href', '/chat/completions', (url) => messages({ type: 'link', href: url })],
    [
      'messages[0].content[0].file.file_data',
      '/chat/completions',
      (url) => messages({ type: 'file', file: { file_data: url } }),
    ],
    [
      'tools[0].input_image_mask.image_url',
      '/responses',
      (url) => ({ input: 'x', tools: [{ type: 'image_generation', input_image_mask: { image_url: url } }] }),
    ],
  ]
  const unsupported = (param: string) => ({
    status: 400,
    body: { error: { type: 'invalid_request_error', code: 'unsupported_url', param } },
  })

  test.each(places)('%s of %s goes where addresses are fetched, and nowhere else', async (param, path, bodyWith) => {
    const body = bodyWith(`https://${new URL(mock.elsewhere.origin).host}/picture.png`)
    const refused = await ask(path, { ...body, model: 'careful/model' })
    expect(refused.answer).toMatchObject(unsupported(param))
    expect(refused.sent).toBeUndefined()
    const passed = await ask(path, { ...body, model: 'fetching/model' })
    expect(passed.answer.status).toBe(path === '/videos' ? 202 : 200)
    expect(passed.sent?.body).toMatchObject(body)
  })

  test.each(places)('%s of %s has no other scheme', async (param, path, bodyWith) => {
    const spelled = [
      ' http://169.254.169.254/',
      '\thttp://x/',
      'http:169.254.169.254',
      '//169.254.169.254/',
      '//[::1]/',
      'ht\ntp://x/',
      'http:\n//x/',
    ]
    for (const url of [`${mock.elsewhere.origin}/x`, 'file:///etc/passwd', 'gs://bucket/x', 'FTP://x/y', ...spelled]) {
      const { answer, sent } = await ask(path, { ...bodyWith(url), model: 'fetching/model' })
      expect([url, answer]).toMatchObject([url, unsupported(param)])
      expect(sent).toBeUndefined()
    }
  })

  test('may stand beside the sound of a transcription', async () => {
    const sound = { data: Buffer.from('RIFF').toString('base64'), format: 'wav' }
    const transcribe = (model: string, url: string) =>
      ask('/audio/transcriptions', { model, input_audio: sound, file_url: url })
    const from = mock.ledger.length
    const refused = [
      await transcribe('careful/model', 'https://sounds.example/a.wav'),
      await transcribe('fetching/model', 'http://169.254.169.254/a.wav'),
    ]
    for (const { answer } of refused) expect(answer).toMatchObject(unsupported('file_url'))
    expect(mock.ledger).toHaveLength(from)
    expect((await transcribe('fetching/model', 'https://sounds.example/a.wav')).answer.status).toBe(200)
  })

  test.each(places.filter(([param]) => param !== 'tools[0].server_url'))(
    '%s of %s may hold the content itself',
    async (_, path, bodyWith) => {
      const body = bodyWith('data:image/png;base64,iVBORw0KGgo=')
      const { answer, sent } = await ask(path, { ...body, model: 'careful/model' })
      expect(answer.status).toBe(path === '/videos' ? 202 : 200)
      expect(sent?.body).toMatchObject(body)
    },
  )

  test('is none in a sentence with a colon', async () => {
    const body = messages({ type: 'audio', audio: 'Note: a bell' })
    const { answer, sent } = await ask('/chat/completions', { ...body, model: 'careful/model' })
    expect(answer.status).toBe(200)
    expect(sent?.body).toMatchObject(body)
  })

  test('is none in sound that begins with slashes in base64', async () => {
    const part = { type: 'input_audio', input_audio: { data: '//uQxAAAAAAAAAAAAAAASW5mbwAAAA8AAAAC', format: 'mp3' } }
    const { answer, sent } = await ask('/chat/completions', { ...messages(part), model: 'careful/model' })
    expect(answer.status).toBe(200)
    expect(sent?.body).toMatchObject(messages(part))
  })

  test('of an image goes to Anthropic as an address, where it may', async () => {
    const url = 'https://pictures.example/cat.png'
    const body = messages({ type: 'image_url', image_url: { url } }, { type: 'text', text: 'A cat?' })
    const { answer, sent } = await ask('/chat/completions', { ...body, model: 'anthropic/model' })
    expect(answer.status).toBe(200)
    expect(JSON.stringify(sent?.body)).toContain(JSON.stringify({ type: 'url', url }))
  })

  test('is none in a text, in the schema of a tool and in what an answer cited', async () => {
    const url = 'http://127.0.0.1/x'
    const cited = { type: 'url_citation', url, title: 'X', start_index: 0, end_index: 1 }
    const bodies = {
      '/chat/completions': {
        messages: [
          { role: 'user', content: `Look at ${url}` },
          { role: 'assistant', content: 'x', annotations: [{ type: 'url_citation', url_citation: cited }] },
          { role: 'user', content: url },
        ],
        tools: [{ type: 'function', function: { name: 'open', parameters: { properties: { url: { const: url } } } } }],
      },
      '/responses': {
        input: [
          { role: 'user', content: url },
          { type: 'web_search_call', id: 'ws_1', status: 'completed', action: { type: 'open_page', url } },
          {
            type: 'message',
            role: 'assistant',
            content: [{ type: 'output_text', text: url, annotations: [cited] }],
          },
        ],
        tools: [{ type: 'function', name: 'open', parameters: { properties: { url: { const: url } } } }],
      },
      '/videos': { prompt: `https://x.example: ${url}` },
    }
    for (const [path, body] of Object.entries(bodies)) {
      const { answer, sent } = await ask(path, { ...body, model: 'careful/model' })
      expect([path, answer.body]).toEqual([path, expect.not.objectContaining({ error: expect.anything() as object })])
      expect(sent?.body).toMatchObject(body)
    }
  })
})

describe('what an account at the provider keeps', () => {
  const tool = (fields: object) => ({ input: 'x', tools: [fields] })
  const kept: [param: string, path: string, body: object][] = [
    [
      'messages[0].content[0].file.file_id',
      '/chat/completions',
      messages({ type: 'file', file: { file_id: 'file_1' } }),
    ],
    [
      'messages[0].audio',
      '/chat/completions',
      {
        messages: [
          { role: 'assistant', audio: { id: 'audio_1' } },
          { role: 'user', content: 'x' },
        ],
      },
    ],
    ['input[0].content[0].file_id', '/responses', input({ type: 'input_file', file_id: 'file_1' })],
    ['input[0].content[0].file_id', '/responses', input({ type: 'input_image', file_id: 'file_1' })],
    ['tools[0].vector_store_ids', '/responses', tool({ type: 'file_search', vector_store_ids: ['vs_1'] })],
    ['tools[0].container', '/responses', tool({ type: 'code_interpreter', container: 'cntr_1' })],
    [
      'tools[0].container.file_ids',
      '/responses',
      tool({ type: 'code_interpreter', container: { type: 'auto', file_ids: ['file_1'] } }),
    ],
    ['tools[0].connector_id', '/responses', tool({ type: 'mcp', connector_id: 'connector_gmail' })],
    ['conversation', '/responses', { input: 'x', conversation: 'conv_1' }],
    ['conversation', '/responses', { input: 'x', conversation: { id: 'conv_1' } }],
    ['prompt', '/responses', { prompt: { id: 'pmpt_1' } }],
    [
      'audio.voice',
      '/chat/completions',
      { messages: [{ role: 'user', content: 'x' }], audio: { voice: { id: 'voice_1' } } },
    ],
    ['input_references[0].file_id', '/videos', { prompt: 'x', input_references: [{ file_id: 'file_1' }] }],
    ['input_reference.file_id', '/videos', { prompt: 'x', input_reference: { file_id: 'file_1' } }],
  ]

  test.each(kept)(
    '%s of %s is refused with the operator’s key, and passed on with one’s own',
    async (param, path, body) => {
      const options = { ...body, model: 'careful/model' }
      const refused = await ask(path, options)
      expect(refused.answer).toMatchObject({
        status: 400,
        body: { error: { type: 'invalid_request_error', code: 'unsupported_parameter', param } },
      })
      expect(refused.sent).toBeUndefined()
      const passed = await ask(path, options, keyed)
      expect(passed.answer.status).toBe(path === '/videos' ? 202 : 200)
      expect(passed.sent?.headers.authorization).toBe('Bearer sk-own')
      expect(passed.sent?.body).toMatchObject(body)
    },
  )

  test('is not meant by the schema of a tool', async () => {
    const parameters = { type: 'object', properties: { file_id: { type: 'string' }, conversation: {} } }
    const bodies = {
      '/chat/completions': {
        messages: [{ role: 'user', content: 'x' }],
        tools: [{ type: 'function', function: { name: 'open', parameters } }],
      },
      '/responses': tool({ type: 'function', name: 'open', parameters }),
    }
    for (const [path, body] of Object.entries(bodies))
      expect([path, (await ask(path, { ...body, model: 'careful/model' })).answer.status]).toEqual([path, 200])
  })

  test('nobody’s key makes answers in the background', async () => {
    for (const asker of [owner, keyed]) {
      const { answer, sent } = await ask('/responses', { model: 'careful/model', input: 'x', background: true }, asker)
      expect(answer).toMatchObject({
        status: 400,
        body: { error: { code: 'unsupported_parameter', param: 'background' } },
      })
      expect(sent).toBeUndefined()
    }
  })
})

// The last test: in all tests above, the gateway connected to nothing but the provider.
test('no address of a body was fetched', () => {
  expect(mock.elsewhere.requests).toEqual([])
})
