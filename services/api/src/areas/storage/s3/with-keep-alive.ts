import { renderError } from '@platform/errors/render-error'
import { XML_DECLARATION } from '@platform/s3-protocol/wire/write-xml'
import { asApiError } from '../../../http/exchange.ts'
import type { S3Call, S3Reply } from './s3-call.ts'

/** Clients and proxies give up on a silent server after some ten seconds. */
const KEEP_ALIVE_MS = 5_000

/**
 * Answers with a document that may take long: after 5 s the answer begins with 200 and white space, which keeps the connection
 * alive until the document follows. A later error is a document with status 200, as S3 clients expect of CompleteMultipartUpload
 * and CopyObject (S3 API).
 */
export async function withKeepAlive(
  { exchange }: Pick<S3Call, 'exchange'>,
  work: () => Promise<string>,
  everyMs = KEEP_ALIVE_MS,
): Promise<S3Reply> {
  const { outgoing, path, requestId, deps } = exchange
  const headers = { 'content-type': 'application/xml' }
  const timer = setInterval(() => {
    if (!outgoing.headersSent) outgoing.writeHead(200, headers).write(XML_DECLARATION)
    outgoing.write(' ')
  }, everyMs)
  try {
    const document = await work()
    if (!outgoing.headersSent) return { status: 200, headers, body: document }
    return { status: 200, body: document.slice(XML_DECLARATION.length) }
  } catch (error) {
    if (!outgoing.headersSent) throw error
    const rendered = renderError('s3', asApiError(error), { path, requestId })
    deps.logger.warn({ err: error, requestId, status: rendered.status }, 'a failure was answered behind a 200')
    return { status: 200, body: rendered.body.slice(rendered.body.indexOf('?>') + 2) }
  } finally {
    clearInterval(timer)
  }
}
