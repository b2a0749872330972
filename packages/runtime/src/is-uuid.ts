const LOWER_CASE = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const EITHER_CASE = new RegExp(LOWER_CASE, 'i')

/**
 * True for a UUID of any version, in either case. Postgres rejects anything else where it expects a UUID, and returns UUIDs in
 * lower case: lower-case the text before comparing.
 */
export const isUuid = (text: string): boolean => EITHER_CASE.test(text)

/** True for a UUID spelled as Postgres writes it, in lower case: for names and ids that compare as text. */
export const isLowerCaseUuid = (text: string): boolean => LOWER_CASE.test(text)
