import { type NextRequest, NextResponse } from 'next/server'
import { addressIn } from './address'

export function proxy(request: NextRequest) {
  const { pathname } = request.nextUrl
  if (pathname === '/proxy/answer') return Response.json({ by: 'proxy', method: request.method }, { status: 418 })
  if (pathname === '/proxy/address') return Response.json(addressIn(request.headers, request))
  if (pathname === '/proxy/redirect') return NextResponse.redirect(new URL('/docs?from=proxy', request.url))
  if (pathname === '/proxy/rewrite') return NextResponse.rewrite(new URL('/docs/proxy/rewritten', request.url))
  const headers = new Headers(request.headers)
  headers.set('x-from-proxy', 'seen')
  const response = NextResponse.next({ request: { headers } })
  response.headers.set('x-proxy', 'passed')
  if (pathname === '/proxy/cookie') response.cookies.set('proxied', 'yes', { httpOnly: true, path: '/' })
  return response
}

export const config = { matcher: ['/proxy/:path*', '/visitor', '/kept/:path*'] }
