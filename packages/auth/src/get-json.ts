import { get as getByHttp } from 'node:http'
import { get as getByHttps } from 'node:https'
import { json } from 'node:stream/consumers'

/**
 * Requests a document in JSON; follows no redirect. By node:http: `fetch` compiles a parser of its own with the first answer, which
 * leaves 20 MB behind.
 *
 * Throws unless the answer is 200 and JSON, and the signal's reason once it is aborted.
 */
export async function getJson(
  url: URL,
  { headers, signal }: { headers?: Record<string, string>; signal: AbortSignal },
): Promise<unknown> {
  const get = url.protocol === 'https:' ? getByHttps : getByHttp
  try {
    return await new Promise((resolve, reject) => {
      const request = get(url, { headers: { accept: 'application/json', ...headers }, signal }, (response) => {
        if (response.statusCode === 200) return resolve(json(response))
        response.resume()
        reject(new Error(`${url.origin}${url.pathname} answered ${response.statusCode}`))
      })
      request.on('error', reject)
    })
  } catch (error) {
    throw signal.aborted ? signal.reason : error
  }
}
