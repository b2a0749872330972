import { Readable } from 'node:stream'
import { expect, test } from 'vitest'
import { readRunnerMessages } from './runner-messages.ts'

/** The accepted steps, of three; the text arrives in chunks of a few thousand bytes. */
async function hear(text: string): Promise<number[]> {
  const bytes = Buffer.from(text)
  const pieces = Array.from({ length: Math.ceil(bytes.length / 7_777) }, (_, n) =>
    bytes.subarray(n * 7_777, (n + 1) * 7_777),
  )
  const heard: number[] = []
  await readRunnerMessages(Readable.from(pieces), 3, ({ step }) => void heard.push(step))
  return heard
}
const ok = (step: unknown): string => `${JSON.stringify({ step, ok: true })}\n`
const failed = (more: object): string => `${JSON.stringify({ step: 0, ok: false, code: 1, signal: null, ...more })}\n`

test.each<[string, string, number[]]>([
  ['each step once, in order', ok(0) + ok(1) + ok(2), [0, 1, 2]],
  ['no more steps than there are', ok(0) + ok(1) + ok(2) + ok(3), [0, 1, 2]],
  ['no step again', ok(0) + ok(0).repeat(100_000) + ok(1), [0]],
  ['no step before its turn', ok(1) + ok(0), []],
  ['a failure', failed({ message: 'x'.repeat(1_000), isTmpFull: true }) + ok(1), [0, 1]],
  ['no failure with a message without end', failed({ message: 'x'.repeat(1_001) }) + ok(0), []],
  ['no failure whose signal is no text', failed({ signal: { toString: 1 } }) + ok(0), []],
  ['no failure without a code', failed({ code: undefined }), []],
  ['no step that is no number', ok('0'), []],
  ['no step of the prototype', ok('__proto__'), []],
  ['no nonsense', `nonsense\n${ok(0)}`, []],
  ['no null', `null\n${ok(0)}`, []],
  ['no line without end', ok(0) + 'x'.repeat(200_000) + ok(1), [0]],
  ['no bytes that are not UTF-8', `\ufffd\n${ok(0)}`, []],
  ['what came before the end', `${ok(0)}{"step":1,`, [0]],
])('it believes %s', async (_, text, steps) => {
  expect(await hear(text)).toEqual(steps)
})

test('what is not believed is not waited for', async () => {
  async function* endless() {
    for (;;) yield Buffer.from('nonsense\n')
  }
  expect(await readRunnerMessages(Readable.from(endless()), 3, () => {})).toBeUndefined()
})
