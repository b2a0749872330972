import { availableParallelism } from 'node:os'
import { BadRequest, Unavailable } from '@platform/errors/api-error'
import { createSemaphore } from '@platform/service/semaphore'
import type { HashCost } from './hash-cost.ts'
import type { Hashing } from './hashing.ts'

/**
 * Queues for a hash. `first`: callers who have shown a session, a known browser or a mailed link; they are served before all
 * others and have 64 places of their own. `ordinary`: anybody.
 */
export type HashLane = 'first' | 'ordinary'

/** Passwords are hashed here and nowhere else (Argon2id, 19 MiB, two passes). */
export interface Passwords {
  /** In the first lane, since everyone who sets a password has proven something. Throws Unavailable if too many wait. */
  hash(password: string): Promise<string>
  /**
   * True if the password matches. Without a hash (no such user, no password set) it takes as long and returns false. Throws
   * Unavailable if too many wait.
   */
  verify(hash: string | undefined, password: string, lane: HashLane): Promise<boolean>
  /** Throws Unavailable if too many wait already, so that a flood of guesses costs no more than this check. */
  requireRoom(lane: HashLane): void
  close(): void
}

/** Longer input is cut before hashing and never matches: a megabyte of password would be an hour of work. */
const PASSWORD_BYTES_MAX = 1_024
export const PASSWORD_LENGTH_MIN = 8
const WAITING_MAX = 64
/** A hash of no known password; its parameters are those of real ones, so checking it takes as long. */
const dummyHash = ({ memoryKiB, passes }: HashCost) =>
  `$argon2id$v=19$m=${memoryKiB},t=${passes},p=1$c29tZXRoaW5nIHNhbHR5IQ$q1rZAiSXTx0XybwlbMq6cA1R2vNe2CxG0MUcJLGgWTk`

/** Returns an acceptable new password. Throws BadRequest if it is too short or too long. */
export function checkedPassword(password: string): string {
  if (Array.from(password).length < PASSWORD_LENGTH_MIN)
    throw new BadRequest(`A password has at least ${PASSWORD_LENGTH_MIN} characters`)
  if (Buffer.byteLength(password) > PASSWORD_BYTES_MAX || password.includes('\0'))
    throw new BadRequest(`A password has at most ${PASSWORD_BYTES_MAX} bytes and no NUL`)
  return password
}

/** True if the queue for hashes was full. An unavailable database is a different error, which has a cause (D66). */
export const isTooBusy = (error: unknown): error is Unavailable =>
  error instanceof Unavailable && error.cause === undefined

/** The number of threads in the hashing process. */
const AT_ONCE_MAX = 4

/** Hashing uses all cores but one; the 65th waiting caller of a lane is refused with 503. Closes `hashing` with itself. */
export function createPasswords(hashing: Hashing): Passwords {
  const ofNobody = dummyHash(hashing.cost)
  const inTurn = createSemaphore({
    kind: 'password_hash',
    slots: Math.max(1, Math.min(AT_ONCE_MAX, availableParallelism() - 1)),
    queueMax: WAITING_MAX,
    firstQueueMax: WAITING_MAX,
    refuse: () => new Unavailable('Too many people are signing in; try again in a moment'),
  })
  const lanes = { first: inTurn.first, ordinary: inTurn }
  return {
    requireRoom: (lane) => lanes[lane].requireRoom(),
    hash: (password) => inTurn.first(() => hashing.hash(password)),
    async verify(hash, password, lane) {
      const fits = Buffer.byteLength(password) <= PASSWORD_BYTES_MAX
      const isRight = await lanes[lane](() => hashing.verify(hash ?? ofNobody, fits ? password : ''))
      return isRight && fits && hash !== undefined
    },
    close: () => hashing.close(),
  }
}
