import { type IncomingMessage, request } from 'node:http'
import type { S3Answer, S3Request } from './s3.ts'

/** A request that has begun. Called once, lets the rest of it happen. */
export type HeldRequest = () => Promise<Pick<S3Answer, 'status' | 'text' | 'body'>>

async function readAnswer(incoming: IncomingMessage): ReturnType<HeldRequest> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk)
  const body = Buffer.concat(chunks)
  return { status: incoming.statusCode ?? 0, body, text: body.toString() }
}

/** Sends the head and half of the body now, and the rest when it is called. */
export function holdBody(port: number, { method, path, headers, body = '' }: S3Request): HeldRequest {
  const bytes = Buffer.from(body)
  const half = Math.floor(bytes.length / 2)
  const outgoing = request({
    host: '127.0.0.1',
    port,
    method,
    path,
    headers: { ...headers, 'content-length': bytes.length },
  })
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once('response', resolve).on('error', reject)
  })
  answered.catch(() => {}) // the caller of what is returned gets the rejection
  outgoing.write(bytes.subarray(0, half))
  return async () => {
    outgoing.end(bytes.subarray(half))
    return readAnswer(await answered)
  }
}

/** Reads the head of the answer now, and its body when it is called. */
export async function holdAnswer(port: number, { path, headers }: S3Request): Promise<HeldRequest> {
  const outgoing = request({ host: '127.0.0.1', port, path, headers }).end()
  const incoming = await new Promise<IncomingMessage>((resolve, reject) => {
    outgoing.once('response', resolve).on('error', reject)
  })
  incoming.on('error', () => {}) // reading it throws
  return () => readAnswer(incoming)
}
