import { headers } from 'next/headers'
import { type NextRequest, NextResponse } from 'next/server'
import { addressIn } from '../../../address'

export async function GET(request: NextRequest) {
  const to = request.nextUrl.searchParams.get('to')
  if (to !== null) return NextResponse.redirect(new URL(to, request.url))
  return Response.json(addressIn(await headers(), request))
}
