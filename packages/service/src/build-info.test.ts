import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { unless } from '@platform/test-runner/task-meta'
import { expect, test } from 'vitest'
import { readBuildInfo } from './build-info.ts'

const repository = new URL('../../../', import.meta.url)
const isCheckout = existsSync(new URL('.git/HEAD', repository))

test(
  'without a word of the image the commit is that of the checkout',
  unless(isCheckout ? undefined : 'it is no checkout of git'),
  () => {
    const head = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: repository, encoding: 'utf8' }).trim()
    expect(readBuildInfo('test', undefined)).toEqual({ service: 'test', commit: head, node: process.versions.node })
  },
)

test('the image says which commit it was built from', () => {
  expect(readBuildInfo('test', 'abc1234').commit).toBe('abc1234')
})
