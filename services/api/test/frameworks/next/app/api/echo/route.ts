import type { NextRequest } from 'next/server'

export const GET = (request: NextRequest) =>
  Response.json({ method: 'GET', query: Object.fromEntries(request.nextUrl.searchParams) })

export async function POST(request: Request) {
  const text = await request.text()
  return Response.json(
    { method: 'POST', bytes: text.length, type: request.headers.get('content-type') },
    { status: 201 },
  )
}
