import { formatCrockford, randomCrockford, readCrockford } from '../../crockford.ts'

const LENGTH = 8

/** A new user code: 40 random bits as eight characters, without the hyphen. */
export const newUserCode = (): string => randomCrockford(LENGTH)

/** How people see it: XXXX-XXXX (B §2). */
export const formatUserCode = formatCrockford

/** What someone typed, as it is stored (D65). */
export const readUserCode = (text: string): string | undefined => readCrockford(text, LENGTH)
