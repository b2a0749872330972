import { s3Failure } from './s3-failure.ts'

const PARTS_MAX = 10_000

/** A part number, 1 to 10,000. Throws InvalidArgument. */
export function readPartNumber(text: string): number {
  const number = /^\d{1,5}$/.test(text) ? Number(text) : 0
  if (number < 1 || number > PARTS_MAX)
    throw s3Failure('InvalidArgument', `Part number must be an integer between 1 and ${PARTS_MAX}, inclusive`)
  return number
}
