import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Worker } from 'node:worker_threads'

// The listener lives in a thread that sleeps from then on, so nobody accepts what the kernel queues.
const LISTENER = `
  const { createServer } = require('node:net')
  const { parentPort } = require('node:worker_threads')
  const server = createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
    parentPort.postMessage(server.address().port)
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
  })
`
/** Linux queues one connection more than the backlog. */
const QUEUED = 2

/** Opens a port of 127.0.0.1 at which connections neither open nor fail: the queue of its listener is full. Linux only. */
export async function startUnansweredPort(): Promise<{ port: number; close(): Promise<void> }> {
  const worker = new Worker(LISTENER, { eval: true })
  const [port] = (await once(worker, 'message')) as [number]
  const queued: Socket[] = []
  for (let index = 0; index < QUEUED; index += 1) {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    await once(socket, 'connect')
    queued.push(socket)
  }
  return {
    port,
    async close() {
      for (const socket of queued) socket.destroy()
      await worker.terminate()
    },
  }
}
