import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { unless } from '@platform/test-runner/task-meta'
import { expect, test } from 'vitest'
import { freePort } from './free-port.ts'

test(
  'a port that a process was given is given to no other and not twice, though nobody listens on it',
  unless(process.platform === 'linux' ? undefined : 'it is of Linux'),
  async () => {
    const ports = [await freePort(), await freePort()]
    const more = Array.from({ length: 50 }, (_, n) => 10_100 + n)
    const proposed = [...ports, ...more]
    const module = new URL('free-port.ts', import.meta.url).href
    const { stdout } = await promisify(execFile)(process.execPath, [
      '--input-type=module',
      '--eval',
      `const { freePort } = await import('${module}')
      const ports = [${proposed.join()}]
      console.log(await freePort(() => ports.shift()))`,
    ])
    expect(more.filter((port) => !ports.includes(port))).toContain(Number(stdout))
    const own = [...proposed]
    expect(ports).not.toContain(await freePort(() => own.shift() ?? 0))
  },
)
