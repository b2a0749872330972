/** Parsed Accept-Encoding headers. Browsers send only a few distinct ones, so each is parsed once. */
const read = new Map<string, ReadonlyMap<string, number>>()
const READ_MAX = 500
/** A longer header is no browser's, and parsed each time. */
const KEPT_LENGTH_MAX = 256
/** A q-value, also with more digits than RFC 9110 §12.4.2 allows. */
const qValue = /^(?:0?\.\d+|[01](?:\.\d*)?)$/

function readWeights(header: string): ReadonlyMap<string, number> {
  const weights = new Map<string, number>()
  for (const part of header.toLowerCase().split(',')) {
    const [name = '', ...parameters] = part.split(';').map((text) => text.trim())
    const q = parameters.find((parameter) => parameter.startsWith('q='))
    const weight = q === undefined ? 1 : qValue.test(q.slice(2)) ? Number(q.slice(2)) : Number.NaN
    if (name !== '' && weight >= 0 && weight <= 1) weights.set(name, weight)
  }
  return weights
}

/**
 * The offered content coding with the highest q-value; the first of equals. Returns undefined for the uncoded file, even if
 * the client refuses identity (RFC 9110 §12.5.3).
 */
export function chooseEncoded<T extends { encoding: string | undefined }>(
  header: string | undefined,
  offered: readonly T[],
): T | undefined {
  if (header === undefined || offered.length === 0) return undefined
  let weights = read.get(header)
  if (!weights) {
    weights = readWeights(header)
    if (header.length <= KEPT_LENGTH_MAX) {
      if (read.size >= READ_MAX) read.clear()
      read.set(header, weights)
    }
  }
  const any = weights.get('*') ?? 0
  let best: T | undefined
  let bestWeight = weights.get('identity') ?? 0
  for (const one of offered) {
    const weight =
      weights.get(one.encoding ?? '') ?? (one.encoding === 'gzip' ? weights.get('x-gzip') : undefined) ?? any
    if (weight > 0 && (weight > bestWeight || (!best && weight >= bestWeight))) {
      best = one
      bestWeight = weight
    }
  }
  return best
}
