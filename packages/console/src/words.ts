import type { Activity, Deployment } from '@platform/sdk'

const count = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const short = new Intl.NumberFormat('en', { maximumFractionDigits: 1, notation: 'compact' })

export const number = (value: number): string => count.format(value)
/** Such as `12.4K`. */
export const shortNumber = (value: number): string => short.format(value)

/** Such as `3 files`. */
export const counted = (value: number, one: string, many = `${one}s`): string =>
  `${number(value)} ${value === 1 ? one : many}`

/** Such as `1.2 MB`, in powers of 1,000. */
export function bytes(value: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let [shown, unit] = [value, 0]
  while (shown >= 999.95 && unit < units.length - 1) [shown, unit] = [shown / 1_000, unit + 1]
  return `${unit === 0 || shown >= 99.95 ? Math.round(shown) : shown.toFixed(1)} ${units[unit]}`
}

/** Such as `1.5 GiB`, in powers of 1,024, as plans count. */
export function binaryBytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  let [shown, unit] = [value, 0]
  while (shown >= 1_023.95 && unit < units.length - 1) [shown, unit] = [shown / 1_024, unit + 1]
  return `${Number(shown.toFixed(unit === 0 || shown >= 99.95 ? 0 : 1))} ${units[unit]}`
}

const money = new Intl.NumberFormat('en', { style: 'currency', currency: 'USD' })

/** Such as `$12.40`. micros: millionths of a US dollar. */
export const dollars = (micros: number): string => money.format(micros / 1_000_000)

/** Such as `850 ms`, `4.2 s`, `3 min 20 s`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${ms < 9.95 ? Number(ms.toFixed(1)) : Math.round(ms)} ms`
  if (ms < 59_950) return `${(ms / 1_000).toFixed(1)} s`
  const seconds = Math.round(ms / 1_000)
  const minutes = `${Math.floor(seconds / 60)} min`
  return seconds % 60 === 0 ? minutes : `${minutes} ${seconds % 60} s`
}

const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })

/** How long ago something was, such as `3 minutes ago`. Times in the future are now: clocks differ. */
export function ago(at: Date, now: number): string {
  const seconds = Math.max(0, Math.round((now - at.getTime()) / 1_000))
  if (seconds < 5) return 'now'
  if (seconds < 60) return relative.format(-seconds, 'second')
  if (seconds < 3_600) return relative.format(-Math.floor(seconds / 60), 'minute')
  if (seconds < 86_400) return relative.format(-Math.floor(seconds / 3_600), 'hour')
  return relative.format(-Math.floor(seconds / 86_400), 'day')
}

/** How far away something is, to the nearest minute, hour or day, such as `in 90 days`. */
export function until(at: Date, now: number): string {
  const minutes = (at.getTime() - now) / 60_000
  if (minutes < 60) return relative.format(Math.max(1, Math.round(minutes)), 'minute')
  if (minutes < 36 * 60) return relative.format(Math.round(minutes / 60), 'hour')
  return relative.format(Math.round(minutes / 1_440), 'day')
}

const localTime = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'short' })
const localClock = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' })

/** In the time zone of the browser. */
export const dateTime = (at: Date): string => localTime.format(at)
export const clock = (at: Date): string => localClock.format(at)
/** Such as `2026-11-28 14:02:03 UTC`. */
export const utc = (at: Date): string => `${at.toISOString().slice(0, 19).replace('T', ' ')} UTC`

/** Of a deployment: what its badge says. */
export type StandingName =
  | 'live'
  | 'active'
  | 'pending'
  | 'queued'
  | 'starting'
  | 'building'
  | 'provisioning'
  | 'failed'
  | 'cancelled'
  | 'retired'

export const standingWords: Record<StandingName, string> = {
  live: 'Live',
  active: 'Active',
  pending: 'Waiting for files',
  queued: 'Queued',
  starting: 'Starting',
  building: 'Building',
  provisioning: 'Provisioning',
  failed: 'Failed',
  cancelled: 'Cancelled',
  retired: 'Retired',
}

type Standing = Pick<Deployment, 'status'> & Partial<Pick<Deployment, 'isCurrent' | 'retiredAt' | 'failureReason'>>

export function standingOf({ status, isCurrent, retiredAt, failureReason }: Standing): StandingName {
  if (retiredAt != null) return 'retired'
  if (status === 'FAILED' && failureReason === 'Cancelled') return 'cancelled'
  if (status === 'ACTIVE' && isCurrent === true) return 'live'
  return status.toLowerCase() as StandingName
}

export const isUnderWay = ({ status }: Pick<Deployment, 'status'>): boolean =>
  status !== 'ACTIVE' && status !== 'FAILED'

/** The last characters of an id, which tell neighbours apart; ids that are made at one time begin alike. */
export const shortId = (id: string): string => `${id.slice(0, 4)}…${id.slice(-6)}`

/** What a deployment is called: the first line of its commit, or the part of its hostname that is its own. */
export function nameOf({ git, hostname }: Pick<Deployment, 'git' | 'hostname'>): string {
  const line = git?.message?.split('\n', 1)[0]?.trim()
  return line === undefined || line === '' ? (hostname.split('.', 1)[0] ?? hostname) : line
}

/** What happened, in a few words. The names in it are text. */
export function happened({ type, subject }: Pick<Activity, 'type' | 'subject'>): string {
  const of = (member: string): string => (typeof subject[member] === 'string' ? ` ${subject[member]}` : '')
  switch (type) {
    case 'variable.created':
      return `Variable${of('key')} created`
    case 'variable.updated':
      return `Variable${of('key')} changed`
    case 'variable.deleted':
      return `Variable${of('key')} deleted`
    case 'hostname.set':
      return `Hostname set to${of('label')}`
    case 'api_key.created':
      return `API key${of('name')} created`
    case 'api_key.deleted':
      return `API key${of('name')} deleted`
    case 'deployment.created':
      return `Deployment${of('label')} created`
    case 'deployment.active':
      return `Deployment${of('label')} went live`
    case 'deployment.failed':
      return `Deployment${of('label')} failed`
    case 'deployment.promoted':
      return `Deployment${of('label')} promoted`
    case 'deployment.cancelled':
      return `Deployment${of('label')} cancelled`
    case 'deployment.retired':
      return `Deployment${of('label')} retired`
  }
}

export const actorWords = { user: 'a person', api_key: 'an API key', function: 'a Function', platform: 'the platform' }
