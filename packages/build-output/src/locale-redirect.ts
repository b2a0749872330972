import type { Route } from './manifest.ts'
import { withQuery } from './query.ts'
import type { RequestState } from './request-state.ts'
import { inHeader } from './template.ts'

/**
 * Returns the path that a route's `locale` redirects a visitor to: that of the locale in the cookie, else of the first match in
 * Accept-Language. Returns undefined if it equals the requested path, or no locale matches.
 */
export function redirectByLocale(
  { redirect = {}, cookie }: NonNullable<Route['locale']>,
  state: RequestState,
): string | undefined {
  const locales = Object.keys(redirect)
  const chosen = cookie === undefined ? undefined : state.subject.cookie(cookie)?.toLowerCase()
  const locale =
    locales.find((each) => each.toLowerCase() === chosen) ??
    acceptedLocale(state.header('accept-language') ?? '', locales)
  const path = locale === undefined ? undefined : redirect[locale]
  if (path === undefined || path === state.path) return undefined
  return withQuery(inHeader(path), state.query)
}

function acceptedLocale(header: string, locales: readonly string[]): string | undefined {
  const wanted = header
    .split(',', 32)
    .map((entry) => {
      const [name = '', ...parameters] = entry.trim().toLowerCase().split(';')
      const weight = parameters.map((each) => each.trim()).find((each) => each.startsWith('q='))
      return { name: name.trim(), weight: weight === undefined ? 1 : Number(weight.slice(2)) }
    })
    .filter(({ weight }) => weight > 0)
    .toSorted((one, other) => other.weight - one.weight)
  for (const { name } of wanted) {
    const exact = locales.find((locale) => locale.toLowerCase() === name)
    if (exact !== undefined) return exact
    const [language = ''] = name.split('-')
    const related = locales.find((locale) => locale.toLowerCase().split('-')[0] === language)
    if (related !== undefined) return related
  }
}
