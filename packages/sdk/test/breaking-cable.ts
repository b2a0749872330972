import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import type { Fetch } from '../src/index.ts'

/**
 * A forwarder to a server that breaks the connection each time that so many bytes more have gone to it. Returns a `fetch` that
 * goes through it, whatever the URL's port, and how often it has broken one. Ends with the test.
 *
 * onBreak: told the number of a break. Nothing goes on before it settles.
 */
export async function startBreakingCable(
  to: string,
  bytesBetween: readonly number[],
  onBreak: (number: number) => Promise<void> | undefined = () => undefined,
) {
  const gaps = [...bytesBetween]
  let [left, breaks] = [gaps.shift() ?? Infinity, 0]
  let mended: Promise<void> | undefined
  const server = createServer((near) => {
    near.on('error', () => {})
    void (async () => {
      await mended
      join(near)
    })()
  })
  function join(near: Socket): void {
    const far = connect(Number(new URL(to).port), new URL(to).hostname)
    const end = () => {
      near.destroy()
      far.destroy()
    }
    far.on('error', () => {})
    for (const socket of [near, far]) socket.on('close', end)
    far.pipe(near)
    near.on('data', (bytes: Buffer) => {
      if (bytes.length < left) {
        left -= bytes.length
        if (!far.write(bytes)) {
          near.pause()
          far.once('drain', () => near.resume())
        }
        return
      }
      left = gaps.shift() ?? Infinity
      breaks += 1
      mended = onBreak(breaks)
      // What would follow has a hole before it.
      near.pause().removeAllListeners('data')
      far.write(bytes.subarray(0, bytes.length >> 1), () => near.resetAndDestroy())
    })
  }
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const through: Fetch = (url, init) => fetch(url.replace(to, `http://127.0.0.1:${port}`), init)
  return { fetch: through, broken: () => breaks }
}
