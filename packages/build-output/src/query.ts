/** The pairs of a query as they are written, with their decoded names. */
function* pairsOf(query: string): Generator<{ name: string; text: string }> {
  for (const text of query.split('&')) {
    if (text === '') continue
    const [name = ''] = new URLSearchParams(text).keys()
    yield { name, text }
  }
}

/** A query without the parameters whose decoded name matches; what stays is spelled as it came. */
export function withoutParameters(query: string, matches: (name: string) => boolean): string {
  if (query === '') return query
  return [...pairsOf(query)].flatMap(({ name, text }) => (matches(name) ? [] : [text])).join('&')
}

/** Both queries, where a parameter of the second replaces all of its name in the first. */
export function mergeQueries(query: string, over: string): string {
  if (query === '' || over === '') return query + over
  const names = new Set([...pairsOf(over)].map(({ name }) => name))
  return joinQueries(
    withoutParameters(query, (name) => names.has(name)),
    over,
  )
}

/** One query after the other. */
export function joinQueries(query: string, more: string): string {
  return query === '' || more === '' ? query + more : `${query}&${more}`
}

/** A path or address with its query. */
export function withQuery(address: string, query: string): string {
  return query === '' ? address : `${address}${address.includes('?') ? '&' : '?'}${query}`
}

/**
 * The parameters of some names in one order and one spelling, so that addresses that mean the same are the same. names undefined: all
 * of them. Values of one name stay in their order.
 */
export function canonicalQuery(query: string, names: readonly string[] | undefined): string {
  if (query === '' || names?.length === 0) return ''
  const wanted = names && new Set(names)
  const pairs = [...new URLSearchParams(query)].filter(([name]) => wanted === undefined || wanted.has(name))
  return new URLSearchParams(pairs.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))).toString()
}
