import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { unless } from '@platform/test-runner/task-meta'
import { expect, test } from 'vitest'
import { isNextMatcher } from './next-matcher.ts'

const DATA = String.raw`(?:\/(_next\/data\/[^/]{1,}))?`
const SUFFIX = String.raw`(\.json|\.rsc|\.segments\/.+\.segment\.rsc)?[\/#\?]?$`
const REST = String.raw`(?:\/((?:[^\/#\?]+?)(?:\/(?:[^\/#\?]+?))*))`
const PARAMETER = String.raw`(?:\/([^\/#\?]+?))`

/** As Next.js 16 writes `/proxy/:path*`, `/a/:id/b/:rest+`, and the same below a base path. */
const matchers = [
  String.raw`^${DATA}\/proxy${REST}?${SUFFIX}`,
  String.raw`^${DATA}\/a${PARAMETER}\/b${REST}${SUFFIX}`,
  String.raw`^\/base${DATA}\/a${PARAMETER}${SUFFIX}`,
]

test.each<[string, boolean]>([
  ...matchers.map((source): [string, boolean] => [source, true]),
  [String.raw`^${DATA}\/proxy(\.json)?[\/#\?]?$`, true],
  [String.raw`^${DATA}\/proxy${REST}?${REST}?${SUFFIX}`, false],
  [String.raw`^${DATA}\/(a+)+${SUFFIX}`, false],
  [String.raw`^${DATA}(?:\/(.*))${SUFFIX}`, false],
  [String.raw`^${DATA}\/proxy${SUFFIX}|(a+)+`, false],
  [String.raw`\/proxy${REST}?${SUFFIX}`, false],
])('%s is a matcher of names and parameters: %s', (source, isOne) => {
  expect(isNextMatcher(source)).toBe(isOne)
})

/** recheck ships a native program for some processors. */
const native = `recheck-${process.platform}-${process.arch}/package.json`
const hasNative = (() => {
  try {
    return createRequire(createRequire(import.meta.url).resolve('recheck')).resolve(native) !== ''
  } catch {
    return false
  }
})()

/** The analysis ends by counted work alone: by its own default it also takes an attack that ran for a second as a proof. */
const limits = {
  attackLimit: 150_000_000,
  attackTimeout: null,
  incubationTimeout: null,
  seedingTimeout: null,
  timeout: null,
}

test(
  'the analysis finds them at most quadratic',
  unless(hasNative ? undefined : 'recheck has no program for this machine'),
  async () => {
    const code = `import { check } from ${JSON.stringify(import.meta.resolve('recheck'))}
    const degrees = []
    for (const source of ${JSON.stringify(matchers)}) {
      const { status, complexity } = await check(source, 'i', ${JSON.stringify(limits)})
      degrees.push(status === 'safe' ? 1 : complexity?.degree)
    }
    console.log(JSON.stringify(degrees))
    process.exit(0)`
    const run = promisify(execFile)(process.execPath, ['--input-type=module', '-e', code], {
      cwd: fileURLToPath(new URL('.', import.meta.url)),
      env: { RECHECK_BACKEND: 'native' },
    })
    const { stdout } = await run
    expect(JSON.parse(stdout)).toEqual([2, 2, 1])
  },
)
