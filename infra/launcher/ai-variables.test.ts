import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { readAiVariables } from './ai-variables.ts'

function writeFile(content: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'ai-variables-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'providers.json'), content)
  return folder
}
const env = { AI_PROVIDERS: 'providers.json', OPENAI_API_KEY: 'sk-1', OTHER: 'x' }

test('the API gets the file of AI providers and the keys that it names, and no other variable', () => {
  const folder = writeFile(
    JSON.stringify({ providers: [{ id: 'openai', keyEnv: 'OPENAI_API_KEY' }, { id: 'own' }, { keyEnv: 'ABSENT' }] }),
  )
  expect(readAiVariables(env, folder)).toEqual({ AI_PROVIDERS: join(folder, 'providers.json'), OPENAI_API_KEY: 'sk-1' })
  expect(readAiVariables({ ...env, AI_PROVIDERS: undefined }, folder)).toEqual({})
  expect(readAiVariables({ ...env, AI_PROVIDERS: '' }, folder)).toEqual({})
})

test.each(['{', '{"providers":1}', '[]'])('a file that is not right is left to the API: %s', (content) => {
  const folder = writeFile(content)
  expect(readAiVariables(env, folder)).toEqual({ AI_PROVIDERS: join(folder, 'providers.json') })
})
