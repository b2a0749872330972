/** A page or redirect that the browser received. */
export interface Visit {
  status: number
  url: string
  headers: Headers
  body: string
  /** Absolute target of a redirect. */
  location: string | undefined
}

const attribute = (tag: string, name: string): string | undefined => {
  const value = new RegExp(`\\s${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)'|([^\\s>]+))`, 'i').exec(tag)
  return value ? decode(value[1] ?? value[2] ?? value[3] ?? '') : undefined
}

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }
const decode = (text: string): string =>
  text.replaceAll(/&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi, (whole, hex?: string, decimal?: string, named?: string) => {
    if (hex) return String.fromCodePoint(Number.parseInt(hex, 16))
    if (decimal) return String.fromCodePoint(Number(decimal))
    return entities[named ?? ''] ?? whole
  })

/** A form as a page shows it. */
export interface ShownForm {
  /** Absolute. */
  action: string
  /** Names of its fields and buttons. */
  names: ReadonlySet<string>
  /** The fields that it sends unchanged: hidden fields, and others that have a value. No button is pressed. */
  filledIn: Record<string, string>
}

/** The forms of a page, in document order. */
export const formsOn = (page: Visit): ShownForm[] =>
  [...page.body.matchAll(/<form\b([^>]*)>([\s\S]*?)<\/form>/gi)].map(([, opening = '', inner = '']) => {
    const inputs = [...inner.matchAll(/<(?:input|button|select|textarea)\b[^>]*>/gi)].map(([tag]) => tag)
    const filledIn = inputs
      .filter((tag) => attribute(tag, 'type') === 'hidden' || attribute(tag, 'value') !== undefined)
      .filter((tag) => !/^<button/i.test(tag) && attribute(tag, 'type') !== 'submit')
      .filter((tag) => !['checkbox', 'radio'].includes(attribute(tag, 'type') ?? '') || /\schecked\b/i.test(tag))
      .map((tag): [string, string] => [attribute(tag, 'name') ?? '', attribute(tag, 'value') ?? ''])
    return {
      action: new URL(attribute(opening, 'action') ?? page.url, page.url).href,
      names: new Set(inputs.map((tag) => attribute(tag, 'name') ?? '')),
      filledIn: Object.fromEntries(filledIn),
    }
  })

/**
 * A browser without JavaScript: keeps cookies, follows redirects one at a time, fills in forms. Enough to walk through
 * server-rendered pages as a person would, including hidden fields and cookies.
 */
export class Browser {
  readonly #cookies = new Map<string, Map<string, string>>()
  /** Sent with every request. */
  readonly headers: Readonly<Record<string, string>>

  constructor(headers: Readonly<Record<string, string>> = {}) {
    this.headers = headers
  }

  /** more: headers for this request only, such as the Origin of another site's page. */
  async visit(url: string, form?: Record<string, string>, more: Record<string, string> = {}): Promise<Visit> {
    const target = new URL(url)
    const jar = this.#cookies.get(target.host) ?? new Map<string, string>()
    this.#cookies.set(target.host, jar)
    const headers = new Headers({ accept: 'text/html', ...this.headers })
    if (jar.size > 0) headers.set('cookie', [...jar].map(([name, value]) => `${name}=${value}`).join('; '))
    if (form) headers.set('origin', target.origin)
    for (const [name, value] of Object.entries(more)) headers.set(name, value)
    const init = form ? { method: 'POST', body: new URLSearchParams(form) } : {}
    const answer = await fetch(url, { ...init, headers, redirect: 'manual' })
    for (const line of answer.headers.getSetCookie()) {
      const [pair = '', ...attributes] = line.split(';')
      const [name = '', ...value] = pair.split('=')
      const isGone = attributes.some((part) => /^\s*max-age\s*=\s*(0|-\d+)\s*$/i.test(part))
      if (isGone) jar.delete(name.trim())
      else jar.set(name.trim(), value.join('=').trim())
    }
    const location = answer.headers.get('location')
    return {
      status: answer.status,
      url,
      headers: answer.headers,
      body: await answer.text(),
      location: location === null ? undefined : new URL(location, url).href,
    }
  }

  /** Follows redirects while they stay within `origin`. Returns the page, or the redirect that leaves. */
  async follow(from: Visit, origin: string): Promise<Visit> {
    let visit = from
    for (let hops = 0; hops < 10; hops++) {
      if (visit.location === undefined || new URL(visit.location).origin !== origin) return visit
      visit = await this.visit(visit.location)
    }
    throw new Error(`Redirected more than 10 times, last to ${visit.location ?? visit.url}`)
  }

  /**
   * Submits the page's form that has the given fields, together with its hidden ones. `button`: the name and value of the
   * pressed button. Throws if no form has them.
   */
  async submit(page: Visit, fields: Record<string, string>, button?: { name: string; value: string }): Promise<Visit> {
    const wanted = [...Object.keys(fields), ...(button ? [button.name] : [])]
    const shown = formsOn(page).find(({ names }) => wanted.every((name) => names.has(name)))
    if (shown)
      return this.visit(shown.action, { ...shown.filledIn, ...fields, ...(button && { [button.name]: button.value }) })
    throw new Error(
      `No form with ${Object.keys(fields).join(', ')} on ${page.url} (${page.status}):\n${page.body.slice(0, 2_000)}`,
    )
  }
}
