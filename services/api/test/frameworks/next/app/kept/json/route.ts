import type { NextRequest } from 'next/server'

export const dynamic = 'force-static'
export const revalidate = 2

export function GET(request: NextRequest) {
  return Response.json(
    { headers: Object.fromEntries(request.headers), search: request.nextUrl.search, time: Date.now() },
    { headers: { 'x-kept': 'yes' } },
  )
}
