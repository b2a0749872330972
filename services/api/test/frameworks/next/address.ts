/** What code sees of the address that its visitor used. */
export const addressIn = (headers: Headers, request?: { url: string; nextUrl?: URL | { href: string } }) => ({
  url: request?.url,
  nextUrl: request?.nextUrl?.href,
  host: headers.get('host'),
  forwarded: `${headers.get('x-forwarded-proto')}://${headers.get('x-forwarded-host')}`,
  /** Whatever names an address that no visitor can use. */
  wrong: [...headers, ...Object.entries(process.env)].filter(([, value]) => value?.includes('0.0.0.0')),
})
