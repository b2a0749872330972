const DAY_MS = 86_400_000

/** When a key can end (A §4); in days, `never` without an end. */
export const ends = {
  '30': 'In 30 days',
  '60': 'In 60 days',
  '90': 'In 90 days',
  '365': 'In 1 year',
  never: 'Never',
} as const

export type End = keyof typeof ends
export const endNames = ['30', '60', '90', '365', 'never'] as const satisfies readonly End[]
export const END_DEFAULT: End = '90'

export const isEnd = (text: unknown): text is End => typeof text === 'string' && text in ends

/** The moment at which a key ends that is made now, as the API takes it; null for never. */
export const expiresAtOf = (end: End, nowMs: number): string | null =>
  end === 'never' ? null : new Date(nowMs + Number(end) * DAY_MS).toISOString()

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })

/** The day (UTC) of a last use, which has no time: `today`, `3 days ago`, `never`. */
export const lastUse = (lastUsedAt: string | null, nowMs: number): string =>
  lastUsedAt === null
    ? 'never'
    : relative.format(Math.floor(Date.parse(lastUsedAt) / DAY_MS) - Math.floor(nowMs / DAY_MS), 'day')

/** Whether somebody may miss a key that is gone: it was used in the last 30 days. */
export const isInUse = (lastUsedAt: string | null, nowMs: number): boolean =>
  lastUsedAt !== null && nowMs - Date.parse(lastUsedAt) < 30 * DAY_MS
