import { readFile } from 'node:fs/promises'
import { z } from 'zod'
import { PriceOverride } from '../../governance/prices.ts'
import { isPricedMember } from '../holds/input-bound.ts'

const id = z.string().regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, 'Expected lower-case letters, digits, dots, _ and -')
const modelId = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._:@/-]{0,199}$/, 'Expected letters, digits and . _ : @ / -')
  .refine((text) => !text.startsWith('local/'), 'Models below local/ are the platform’s own')
const modality = z.enum(['text', 'image', 'audio', 'video', 'file', 'embedding'])
const tokens = z.number().int().min(1)
const unpricedMember = z
  .string()
  .regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, 'Expected the name of a top-level member')
  .refine((name) => !isPricedMember(name.toLowerCase()), {
    error: ({ input }) => `The gateway itself decides on ${String(input)}`,
  })

const provider = z
  .strictObject({
    id: id.refine((text) => text !== 'local', 'local is the platform’s own'),
    name: z.string().min(1).max(100).optional(),
    driver: z.enum(['openai-compatible', 'anthropic']),
    baseUrl: z
      .url({ protocol: /^https?$/ })
      .refine((url) => {
        const { username, password, search, hash } = new URL(url)
        return username + password + search + hash === ''
      }, 'Expected a URL without user, query and fragment')
      .transform((url) => new URL(url.replace(/\/+$/, ''))),
    /** The environment variable with the operator's key. If omitted, organizations can use only keys of their own. */
    keyEnv: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]*$/)
      .optional(),
    /** True if it stores nothing of a request. */
    zdr: z.boolean().default(false),
    /** True if it safely fetches the URLs in a request. */
    fetchesUrls: z.boolean().default(false),
    /** Whether streams report usage on request (include), by themselves (always) or never. */
    streamUsage: z.enum(['include', 'always', 'never']).default('include'),
    /** Whether it has /responses; if omitted, found out by trying. */
    responses: z.boolean().optional(),
    /** Additional hosts that videos may be fetched from. */
    contentHosts: z.array(z.string().regex(/^[a-z0-9.-]+$/)).default([]),
    /** Members of requests that change neither price nor tokens here: they pass under budgets. */
    unpriced: z.array(unpricedMember).max(100).default([]),
  })
  .readonly()

const route = z
  .strictObject({
    provider: id,
    upstreamModel: z.string().min(1).max(256),
    /** Its share of the calls, relative to the other routes. */
    weight: z.number().min(0).max(1_000).default(1),
    /** The member that limits the output at this provider. */
    capParameter: z.enum(['max_tokens', 'max_completion_tokens', 'max_output_tokens']).default('max_completion_tokens'),
    price: PriceOverride.optional(),
    /** Maximum input tokens of each, and the longest accepted recording, in seconds. */
    bounds: z
      .strictObject({ image: tokens, file: tokens, audioSecond: tokens, fileSeconds: z.number().min(1) })
      .partial()
      .default({}),
  })
  .readonly()

const model = z
  .strictObject({
    id: modelId,
    name: z.string().min(1).max(200).optional(),
    description: z.string().max(2_000).optional(),
    /** Seconds since 1970. */
    created: z.number().int().min(0).optional(),
    modalities: z.strictObject({ input: z.array(modality), output: z.array(modality) }).optional(),
    capabilities: z
      .strictObject({
        chat: z.boolean(),
        streaming: z.boolean(),
        tools: z.boolean(),
        vision: z.boolean(),
        json_mode: z.boolean(),
      })
      .partial()
      .optional(),
    contextWindow: tokens.optional(),
    maxOutputTokens: tokens.optional(),
    routes: z.array(route).min(1),
  })
  .readonly()

const providerFile = z
  .strictObject({
    /** Monthly (UTC) allowance of the operator's keys for every organization, in millionths of a US dollar. */
    freeCostMicros: z.number().int().min(0).default(0),
    providers: z.array(provider),
    models: z.array(model),
  })
  .superRefine(({ providers, models }, ctx) => {
    const seen = new Set<string>()
    for (const [n, { id: name }] of providers.entries()) {
      if (seen.has(name))
        ctx.addIssue({ code: 'custom', path: ['providers', n, 'id'], message: `${name} is there twice` })
      seen.add(name)
    }
    const names = new Set<string>()
    for (const [n, { id: name, routes }] of models.entries()) {
      if (names.has(name))
        ctx.addIssue({ code: 'custom', path: ['models', n, 'id'], message: `${name} is there twice` })
      names.add(name)
      if (routes.every(({ weight }) => weight === 0))
        ctx.addIssue({
          code: 'custom',
          path: ['models', n, 'routes'],
          message: 'Expected a route with a weight above 0',
        })
      for (const [m, { provider: of }] of routes.entries())
        if (!seen.has(of))
          ctx.addIssue({
            code: 'custom',
            path: ['models', n, 'routes', m, 'provider'],
            message: `There is no provider ${of}`,
          })
    }
  })

/** The operator's file is invalid. The message lists the reasons, one per line. */
export class WrongProviderFile extends Error {
  override name = 'WrongProviderFile'
}

export type ProviderFile = z.output<typeof providerFile>

/** Reads the operator's file of providers and models. Throws WrongProviderFile with every invalid line. */
export async function readProviderFile(path: string): Promise<ProviderFile> {
  let value: unknown
  try {
    value = JSON.parse(await readFile(path, 'utf8'))
  } catch (error) {
    const why = error instanceof SyntaxError ? `is not JSON: ${error.message}` : 'cannot be read'
    throw new WrongProviderFile(`${path} ${why}`)
  }
  const parsed = providerFile.safeParse(value)
  if (parsed.success) return parsed.data
  const lines = parsed.error.issues.map((issue) => `  ${issue.path.join('.') || 'the file'}: ${issue.message}`)
  throw new WrongProviderFile(`${path} is not right:\n${lines.join('\n')}`)
}
