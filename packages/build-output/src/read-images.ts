import { z } from 'zod'
import type { ImageRules } from './manifest.ts'

const LIST_MAX = 1_000
const TEXT_MAX = 2_048
const SECONDS_MAX = 31_536_000

const text = z.string().max(TEXT_MAX)
const headerText = text.regex(/^[\t\x20-\x7E]+$/, 'a header is plain text')
const list = <T extends z.ZodType>(member: T) => z.array(member).max(LIST_MAX)

/** `images` of config.json, as Vercel documents it for Build Output API v3. */
export const imagesSchema = z.object({
  sizes: list(z.int().min(1).max(65_535)).min(1),
  domains: list(text).optional(),
  remotePatterns: list(
    z.object({
      protocol: z.enum(['http', 'https']).optional(),
      hostname: text,
      port: text.optional(),
      pathname: text.optional(),
      search: text.optional(),
    }),
  ).optional(),
  localPatterns: list(z.object({ pathname: text.optional(), search: text.optional() })).optional(),
  qualities: list(z.int().min(1).max(100)).optional(),
  minimumCacheTTL: z.int().min(0).optional(),
  formats: list(z.enum(['image/avif', 'image/webp'])).optional(),
  dangerouslyAllowSVG: z.boolean().optional(),
  contentSecurityPolicy: headerText.optional(),
  contentDispositionType: z.enum(['inline', 'attachment']).optional(),
})

const escaped = (plain: string): string => plain.replaceAll(/[.+?^${}()|[\]\\/-]/g, String.raw`\$&`)

/**
 * Converts a written pattern to a regular expression. `vercel build` already writes regular expressions; other adapters pass on the
 * framework's configuration, in which `*` stands for one segment and `**` for any number of them.
 */
function patternOf(written: string, segment: string): string {
  if (/^\^|[\\([]|\.\*/.test(written)) return written
  const plain = written.split(/(\*+)/).map((part) => {
    if (!part.startsWith('*')) return escaped(part)
    return part.length === 1 ? segment : '.*'
  })
  return `^${plain.join('')}$`
}

const HOST_SEGMENT = '[^.]+'
const PATH_SEGMENT = '[^/]*'

/** Converts image rules to their stored form: every pattern a regular expression, absent members absent. */
export function readImages({ minimumCacheTTL, ...images }: z.infer<typeof imagesSchema>): ImageRules {
  const withPath = <T extends { pathname?: string | undefined }>(pattern: T): T =>
    pattern.pathname === undefined ? pattern : { ...pattern, pathname: patternOf(pattern.pathname, PATH_SEGMENT) }
  return {
    ...images,
    domains: (images.domains ?? []).map((domain) => domain.toLowerCase()),
    remotePatterns: (images.remotePatterns ?? []).map((pattern) => ({
      ...withPath(pattern),
      hostname: patternOf(pattern.hostname, HOST_SEGMENT),
    })),
    ...(images.localPatterns && { localPatterns: images.localPatterns.map(withPath) }),
    ...(minimumCacheTTL !== undefined && { minimumCacheTTL: Math.min(minimumCacheTTL, SECONDS_MAX) }),
  }
}

/** Yields every pattern of the rules, with its member. */
export function* patternsOfImages({
  remotePatterns,
  localPatterns = [],
}: ImageRules): Generator<{ member: string; source: string }> {
  for (const [n, { hostname, pathname }] of remotePatterns.entries()) {
    yield { member: `remotePatterns[${n}]`, source: hostname }
    if (pathname !== undefined) yield { member: `remotePatterns[${n}]`, source: pathname }
  }
  for (const [n, { pathname }] of localPatterns.entries())
    if (pathname !== undefined) yield { member: `localPatterns[${n}]`, source: pathname }
}
