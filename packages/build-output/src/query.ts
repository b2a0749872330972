/** Yields the pairs of a query as written, with their decoded names. */
function* pairsOf(query: string): Generator<{ name: string; text: string }> {
  for (const text of query.split('&')) {
    if (text === '') continue
    const [name = ''] = new URLSearchParams(text).keys()
    yield { name, text }
  }
}

/** Returns a query without the parameters whose decoded name matches; the rest keeps its spelling. */
export function withoutParameters(query: string, matches: (name: string) => boolean): string {
  if (query === '') return query
  return [...pairsOf(query)].flatMap(({ name, text }) => (matches(name) ? [] : [text])).join('&')
}

/** Merges two queries; a parameter of the second replaces all with its name in the first. */
export function mergeQueries(query: string, over: string): string {
  if (query === '' || over === '') return query + over
  const names = new Set([...pairsOf(over)].map(({ name }) => name))
  return joinQueries(
    withoutParameters(query, (name) => names.has(name)),
    over,
  )
}

/** Concatenates two queries. */
export function joinQueries(query: string, more: string): string {
  return query === '' || more === '' ? query + more : `${query}&${more}`
}

/** Returns a path or URL with its query. */
export function withQuery(address: string, query: string): string {
  return query === '' ? address : `${address}${address.includes('?') ? '&' : '?'}${query}`
}

/**
 * Returns the parameters with these names in canonical order and spelling, so that equivalent URLs become equal. names undefined:
 * all parameters. Values of one name keep their order.
 */
export function canonicalQuery(query: string, names: readonly string[] | undefined): string {
  if (query === '' || names?.length === 0) return ''
  const wanted = names && new Set(names)
  const pairs = [...new URLSearchParams(query)].filter(([name]) => wanted === undefined || wanted.has(name))
  return new URLSearchParams(pairs.toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))).toString()
}
