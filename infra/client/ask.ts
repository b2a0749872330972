/** Sends a request to the platform, demands its status and reads its JSON. Throws with the answer where it has another status. */
export type Ask = <T>(url: string, status: number, init?: RequestInit) => Promise<T>

/** Opens the client. report: told each request that was answered, in a line that holds no secret. */
export function openAsk(report: (line: string) => void = () => {}): Ask {
  return async <T>(url: string, status: number, init: RequestInit = {}): Promise<T> => {
    const answer = await fetch(url, init)
    const text = await answer.text()
    // The URLs of uploads carry their own authority.
    const path = new URL(url).pathname.replace(/^(\/files\/[^./]+)\..*/, '$1.…')
    report(`${init.method ?? 'GET'} ${path} → ${answer.status}`)
    if (answer.status !== status) throw new Error(`Expected ${status} from ${path}, got ${answer.status}: ${text}`)
    return (text === '' ? undefined : JSON.parse(text)) as T
  }
}

/** A form, as OAuth takes it. */
export const form = (fields: Record<string, string>): RequestInit => ({
  method: 'POST',
  body: new URLSearchParams(fields),
})

/** A POST of JSON with a bearer token. */
export const json = (token: string, body: object, method = 'POST'): RequestInit => ({
  method,
  headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
  body: JSON.stringify(body),
})

/** A request without a body, with a bearer token. */
export const bearer = (token: string, method = 'GET'): RequestInit => ({
  method,
  headers: { authorization: `Bearer ${token}` },
})
