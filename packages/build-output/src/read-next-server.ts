import { z } from 'zod'
import type { PatternChecker } from './check-pattern.ts'
import { contentTypeOf } from './content-type.ts'
import type { ImageRules } from './manifest.ts'
import { type Asset, isServable, type Tree } from './output.ts'
import { imagesSchema, patternsOfImages, readImages } from './read-images.ts'
import { readJson } from './read-json.ts'

const MODULE_BYTES_MAX = 4 * 1024 * 1024
/** Next.js writes this into the server of its standalone output. */
const MARK = '__NEXT_PRIVATE_STANDALONE_CONFIG'
const IMAGE_PATH = '/_next/image'

const width = z.int()
/** The settings that we read; members of another shape are ignored. */
const settings = z.looseObject({
  config: z.looseObject({
    basePath: z.string().catch(''),
    images: z
      .looseObject({
        path: z.string(),
        loader: z.string(),
        unoptimized: z.boolean().optional(),
        deviceSizes: z.array(width),
        imageSizes: z.array(width),
      })
      .optional()
      .catch(undefined),
  }),
})

/** Next.js' standalone output: a Node server with everything that it needs. */
export interface NextServer {
  /** Path of its module in the tree. */
  module: string
  /** URL path of its hashed files, without a leading slash, with a trailing one. */
  staticFolder: string
  assets: Asset[]
  /** undefined: the server transforms its images itself. */
  images: ImageRules | undefined
}

/** Finds Next.js' standalone output in a folder: '' or with a trailing slash. distDir: the project's. Throws UnusableOutput. */
export async function findNextServer(
  tree: Tree,
  below: string,
  checker: PatternChecker,
  distDir = '.next',
): Promise<NextServer | undefined> {
  const module = `${below}server.js`
  const manifest = `${below}${distDir}/required-server-files.json`
  const size = tree.files.get(module)?.bytes ?? Infinity
  if (size > MODULE_BYTES_MAX || !tree.files.has(manifest)) return undefined
  if (!(await tree.read(module)).includes(MARK)) return undefined
  const { config } = await readJson(tree, manifest, settings)
  const staticFolder = `${config.basePath}/_next/static/`.slice(1)
  const source = `${below}${distDir}/static/`
  const assets: Asset[] = []
  for (const path of tree.files.keys()) {
    const name = path.startsWith(source) ? path.slice(source.length) : ''
    if (name !== '' && isServable(name))
      assets.push({ path: staticFolder + name, source: path, contentType: contentTypeOf(name) })
  }
  return { module, staticFolder, assets, images: await readRules(config.images, checker) }
}

/** Returns the image rules for an edge; undefined if they use unsupported settings. */
async function readRules(
  images: z.infer<typeof settings>['config']['images'],
  checker: PatternChecker,
): Promise<ImageRules | undefined> {
  if (images?.path !== IMAGE_PATH || images.loader !== 'default' || images.unoptimized === true) return undefined
  const parsed = imagesSchema.safeParse({ ...images, sizes: [...images.deviceSizes, ...images.imageSizes] })
  if (!parsed.success) return undefined
  const { remotePatterns = [], localPatterns = [] } = parsed.data
  const written = [
    ...remotePatterns.map(({ hostname }) => hostname),
    ...[...remotePatterns, ...localPatterns].map(({ pathname = '' }) => pathname),
  ]
  // Of the pattern syntax of Next.js, only `*` and `**` are supported.
  if (written.some((pattern) => /[[\](){}!?|+@]/.test(pattern))) return undefined
  const rules = readImages(parsed.data)
  for (const { source } of patternsOfImages(rules))
    if ((await checker.checkPattern(`^(?:${source})$`, '')).kind !== 'safe') return undefined
  return rules
}
