import { createOpenAICompatible, type OpenAICompatibleProvider } from '@ai-sdk/openai-compatible'
import { HumanMessage, SystemMessage } from '@langchain/core/messages'
import { tool as chainTool } from '@langchain/core/tools'
import { ChatOpenAI } from '@langchain/openai'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { APICallError, generateText, Output, streamText, tool } from 'ai'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { z } from 'zod'
import { echoOf, usageOf } from './ai.ts'
import { newOwner, type Owner } from './scenario.ts'

const model = 'local/echo'
const answer = echoOf('Hello there')
/** A schema that local/echo makes a small instance of. */
const Weather = z.object({ city: z.string(), degrees: z.number(), isRaining: z.boolean() })
const weather = { city: '', degrees: 0, isRaining: false }
const unseen = 'does not exist'

let platform: TestPlatform
let ana: Owner
let baseURL: string
let provider: OpenAICompatibleProvider
beforeAll(async () => {
  // The AI SDK prints what it leaves out of a request.
  vi.stubGlobal('AI_SDK_LOG_WARNINGS', false)
  platform = await startPlatform()
  ana = await newOwner(platform)
  baseURL = `${platform.apiUrl}/ai/v1`
  provider = createOpenAICompatible({
    name: 'platform',
    baseURL,
    apiKey: ana.token,
    includeUsage: true,
    supportsStructuredOutputs: true,
  })
})
afterAll(() => {
  vi.unstubAllGlobals()
  return platform.close()
})

test('the AI SDK generates a text', async () => {
  const { text, finishReason, usage, response } = await generateText({
    model: provider(model),
    instructions: 'Be brief',
    prompt: 'Hello there',
  })
  expect([text, finishReason]).toStrictEqual([answer, 'stop'])
  const outputTokens = Math.ceil(answer.length / 4)
  expect(usage).toMatchObject({ inputTokens: 5, outputTokens, totalTokens: 5 + outputTokens })
  const events = await usageOf(platform, ana.organizationId)
  expect(events.find(({ id }) => id === response.headers?.['x-request-id'])).toMatchObject({
    inputTokens: 5,
    outputTokens,
    status: 'success',
  })
})

test('the AI SDK streams a text, and knows its usage', async () => {
  const result = streamText({ model: provider(model), prompt: 'Hello there' })
  const pieces: string[] = []
  for await (const piece of result.textStream) pieces.push(piece)
  expect(pieces.join('')).toBe(answer)
  expect(pieces.length).toBeGreaterThan(1)
  expect([await result.finishReason, (await result.usage).outputTokens]).toStrictEqual([
    'stop',
    Math.ceil(answer.length / 4),
  ])
})

test('the AI SDK calls a tool, whole and in a stream', async () => {
  const seen: unknown[] = []
  const lookUp = tool({
    description: 'Looks the weather up',
    inputSchema: Weather,
    execute(input) {
      seen.push(input)
      return 'sunny'
    },
  })
  const options = {
    model: provider(model),
    prompt: 'How is it?',
    tools: { lookUp },
    toolChoice: 'required' as const,
  }
  const { toolCalls, toolResults, finishReason } = await generateText(options)
  expect(finishReason).toBe('tool-calls')
  expect(toolCalls).toMatchObject([{ toolName: 'lookUp', input: weather }])
  expect(toolResults).toMatchObject([{ output: 'sunny' }])
  expect(await streamText(options).toolCalls).toMatchObject([{ toolName: 'lookUp', input: weather }])
  expect(seen).toStrictEqual([weather, weather])
})

test('the AI SDK generates objects', async () => {
  const prompt = 'How is it?'
  const { output } = await generateText({ model: provider(model), output: Output.object({ schema: Weather }), prompt })
  expect(output).toStrictEqual(weather)
  // Of a provider that knows no schemas it asks for JSON alone.
  const plain = createOpenAICompatible({ name: 'platform', baseURL, apiKey: ana.token })
  const { output: echoed } = await generateText({ model: plain(model), output: Output.json(), prompt })
  expect(echoed).toStrictEqual({ echo: echoOf(prompt) })
})

test('the AI SDK shows failures with their message, and knows which to repeat', async () => {
  const failed: unknown = await generateText({ model: provider('local/none'), prompt: 'Hello' }).catch(
    (error: unknown) => error,
  )
  if (!APICallError.isInstance(failed)) throw new Error('Expected an APICallError', { cause: failed })
  expect(failed).toMatchObject({ statusCode: 404, isRetryable: false, message: expect.stringContaining(unseen) })
  expect(failed.data).toMatchObject({ error: { code: 'model_not_found', param: 'model' } })

  const errors: unknown[] = []
  const result = streamText({
    model: provider('local/none'),
    prompt: 'Hello',
    onError: ({ error }) => void errors.push(error),
  })
  await result.consumeStream()
  expect(errors).toMatchObject([{ statusCode: 404 }])
})

const chat = (id = model) => new ChatOpenAI({ model: id, apiKey: ana.token, maxRetries: 0, configuration: { baseURL } })

test('LangChain invokes a model', async () => {
  const { text, usage_metadata: usage } = await chat().invoke([
    new SystemMessage('Be brief'),
    new HumanMessage('Hello there'),
  ])
  expect(text).toBe(answer)
  expect(usage).toMatchObject({ input_tokens: 5, output_tokens: Math.ceil(answer.length / 4) })
})

test('LangChain streams a model, and knows its usage', async () => {
  const pieces: string[] = []
  let outputTokens = 0
  for await (const { text, usage_metadata: usage } of await chat().stream('Hello there')) {
    if (text !== '') pieces.push(text)
    outputTokens += usage?.output_tokens ?? 0
  }
  expect(pieces.join('')).toBe(answer)
  expect(pieces).toHaveLength(answer.split(' ').length)
  expect(outputTokens).toBe(Math.ceil(answer.length / 4))
})

test('LangChain has structured output, and binds tools', async () => {
  expect(await chat().withStructuredOutput(Weather).invoke('How is it?')).toStrictEqual(weather)
  const viaTool = chat().withStructuredOutput(Weather, { method: 'functionCalling', name: 'weather' })
  expect(await viaTool.invoke('How is it?')).toStrictEqual(weather)

  const lookUp = chainTool(() => 'sunny', { name: 'look_up', description: 'Looks it up', schema: Weather })
  const bound = chat().bindTools([lookUp], { tool_choice: 'look_up' })
  const { tool_calls: calls = [] } = await bound.invoke('How is it?')
  expect(calls).toMatchObject([{ name: 'look_up', args: weather }])
  expect(calls[0] && (await lookUp.invoke(calls[0]))).toMatchObject({ content: 'sunny' })
})

test('LangChain speaks /responses, whole and in a stream', async () => {
  const responses = new ChatOpenAI({
    model,
    apiKey: ana.token,
    maxRetries: 0,
    useResponsesApi: true,
    configuration: { baseURL },
  })
  expect((await responses.invoke('Hello there')).text).toBe(answer)
  let text = ''
  for await (const chunk of await responses.stream('Hello there')) text += chunk.text
  expect(text).toBe(answer)
})

test('LangChain shows failures with their code', async () => {
  await expect(chat('local/none').invoke('Hello')).rejects.toMatchObject({
    status: 404,
    code: 'model_not_found',
    message: expect.stringContaining(unseen),
  })
})
