/** The parameters of Argon2id, with one lane. */
export interface HashCost {
  memoryKiB: number
  passes: number
}

/** What OWASP asks for at least: 19 MiB, two passes; some 16 ms of a core. No variable of the environment changes it. */
export const HASH_COST: HashCost = { memoryKiB: 19_456, passes: 2 }
