import { z } from 'zod'

const TEXT_MAX = 4_096

export const text = z.string().max(TEXT_MAX)
export const texts = z.array(text)

export const valueTest = z.object({
  eq: z.union([text, z.number()]).optional(),
  neq: text.optional(),
  inc: texts.optional(),
  ninc: texts.optional(),
  pre: text.optional(),
  suf: text.optional(),
  re: text.optional(),
  gt: z.number().optional(),
  gte: z.number().optional(),
  lt: z.number().optional(),
  lte: z.number().optional(),
})

/** A condition of `has`, `missing` and similar members. */
export const condition = z.object({
  type: z.enum(['host', 'header', 'cookie', 'query']),
  key: text.optional(),
  value: z.union([text, valueTest]).optional(),
})
