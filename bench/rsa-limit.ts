import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { programOn } from './cores.ts'

const run = promisify(execFile)

/**
 * RSA-2048 signatures a second on the measured core, by `openssl speed`: no token endpoint signs more. By the clock, as
 * requests are counted: by CPU time a core of a shared machine is as fast while it is lent to somebody else.
 */
export async function measureRsaSignatures(seconds: number): Promise<number> {
  const [command, args] = programOn('server', 'openssl', [
    'speed',
    '-mr',
    '-elapsed',
    '-seconds',
    String(seconds),
    'rsa2048',
  ])
  const { stdout, stderr } = await run(command, args)
  // `+R1:<signatures>:2048:<seconds>`
  const [, signatures, took] = /^\+R1:(\d+):2048:([\d.]+)$/m.exec(`${stdout}\n${stderr}`) ?? []
  const perSecond = Number(signatures) / Number(took)
  if (!(perSecond > 0)) throw new Error(`openssl speed did not say how fast it signs: ${stdout}`)
  return perSecond
}
