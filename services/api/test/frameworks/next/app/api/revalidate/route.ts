import { revalidatePath, revalidateTag } from 'next/cache'
import type { NextRequest } from 'next/server'

/** ?path=, ?tag= (gone at once) or ?stale= (the old one is served once more). */
export function POST(request: NextRequest) {
  const { path, type, tag, stale } = Object.fromEntries(request.nextUrl.searchParams)
  if (path) revalidatePath(path, type as 'page' | 'layout' | undefined)
  if (tag) revalidateTag(tag, { expire: 0 })
  if (stale) revalidateTag(stale, 'max')
  return Response.json({ path, tag, stale })
}
