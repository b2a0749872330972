import { revalidatePath, revalidateTag } from 'next/cache'
import type { NextRequest } from 'next/server'

export async function POST(request: NextRequest) {
  const { path, tag } = Object.fromEntries(request.nextUrl.searchParams)
  if (path) revalidatePath(path)
  if (tag) revalidateTag(tag, { expire: 0 })
  return Response.json({ path, tag })
}
