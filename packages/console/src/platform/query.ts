import { useLocation } from 'preact-iso'

interface Choice<T extends string> {
  /** One of those that are allowed; undefined: none. */
  value: T | undefined
  /** What the address says instead. */
  wrong: string | undefined
}

/** A filter of the address. One that does not parse is told, never guessed. */
export function useChoice<T extends string>(name: string, allowed: readonly T[]): Choice<T> {
  const text = useLocation().query[name]
  if (text === undefined) return { value: undefined, wrong: undefined }
  const value = allowed.find((each) => each === text)
  return { value, wrong: value === undefined ? `${name}=${text} is none of ${allowed.join(', ')}` : undefined }
}

export const isUuid = (text: string): boolean => /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

/** An id of the address. */
export function useIdOf(name: string): Choice<string> {
  const text = useLocation().query[name]
  if (text === undefined) return { value: undefined, wrong: undefined }
  return isUuid(text) ? { value: text, wrong: undefined } : { value: undefined, wrong: `${name}=${text} is no id` }
}

/** The address of this page with other members in its query; undefined takes one away. */
export function useAddress(): (changes: Record<string, string | undefined>) => string {
  const { path, query } = useLocation()
  return (changes) => {
    const members = Object.entries({ ...query, ...changes }).filter(
      (member): member is [string, string] => member[1] !== undefined,
    )
    const search = new URLSearchParams(members).toString()
    return search === '' ? path : `${path}?${search}`
  }
}
