import { formatCrockford, randomCrockford, readCrockford } from '../../crockford.ts'

const LENGTH = 8

/** A new user code: 40 random bits as eight characters, without the hyphen. */
export const newUserCode = (): string => randomCrockford(LENGTH)

/** Formats a user code for people: XXXX-XXXX (B §2). */
export const formatUserCode = formatCrockford

/** Normalises a typed code to its stored form (D65); undefined if it cannot be one. */
export const readUserCode = (text: string): string | undefined => readCrockford(text, LENGTH)
